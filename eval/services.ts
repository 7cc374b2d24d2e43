import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';

export type ReplayServices = Readonly<{
  /** Default: an embedded Postgres in a temporary folder. */
  databaseUrl?: string | undefined;
  /** Default: queue and live events go over Postgres. */
  redisUrl?: string | undefined;
  /** Prefix of the keys in Redis, all of which are removed at the end. Default: a new one. */
  queuePrefix?: string | undefined;
}>;

/**
 * The environment of a replay's service. It shares only the database with other processes; its other data is removed
 * when the stack is disposed.
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
