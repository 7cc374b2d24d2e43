import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';

/** Where a replay's service keeps its data. */
export type ReplayServices = Readonly<{
  /** Left out: an embedded Postgres in a temporary folder. */
  databaseUrl?: string | undefined;
  /** Left out: queue and live events go over Postgres. */
  redisUrl?: string | undefined;
  /** Of the keys in Redis, all of which are removed at the end. Default: one of its own. */
  queuePrefix?: string | undefined;
}>;

/**
 * The environment of a replay's service: nothing in it is shared with another process but the database. What is left
 * outside of the database is removed when the stack is disposed.
 */
export async function replayEnvironment(
  services: ReplayServices,
  stack: AsyncDisposableStack,
): Promise<Record<string, string>> {
  const { databaseUrl, redisUrl } = services;
  const prefix = services.queuePrefix ?? `replay-${randomBytes(6).toString('hex')}`;
  const folder = await mkdtemp(join(tmpdir(), 'baton-replay-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  if (redisUrl !== undefined) stack.defer(() => removeKeys(redisUrl, prefix));
  return {
    ...(databaseUrl === undefined ? {} : { DATABASE_URL: databaseUrl }),
    ...(redisUrl === undefined ? {} : { REDIS_URL: redisUrl }),
    BATON_DATA_DIR: join(folder, 'data'),
    BATON_WORKSPACE_DIR: join(folder, 'workspace'),
    BATON_QUEUE_PREFIX: prefix,
    BATON_PORT: '0',
  };
}

async function removeKeys(url: string, prefix: string): Promise<void> {
  const redis = new Redis(url, { maxRetriesPerRequest: 1 });
  try {
    for await (const keys of redis.scanStream({ match: `${prefix}:*`, count: 1000 })) {
      if (Array.isArray(keys) && keys.length > 0) await redis.unlink(keys.map(String));
    }
  } finally {
    redis.disconnect();
  }
}
