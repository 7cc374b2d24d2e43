import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { hasRedisServer, startOwnRedis } from '../../faults/world/services.ts';
import { mountSmallDisk } from '../../support/small-disk.ts';
import type { Need } from '../row.ts';
import { startOwnCluster } from './own-cluster.ts';

/** The stores that all rows share. */
export type Services = AsyncDisposable &
  Readonly<{
    postgresUrl: string;
    /** Null: no Redis, so the queue is on Postgres. */
    redisUrl: string | null;
    /** Needs that this machine cannot meet, with the reasons. */
    missing: ReadonlyMap<Need, string>;
    /** One line for people about each store. */
    report: readonly string[];
  }>;

/** Starts the suite's own Postgres and Redis on free ports. Disposing stops them and removes their files. */
export async function startServices(): Promise<Services> {
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'baton-abuse-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const postgres = stack.use(await startOwnCluster(join(folder, 'postgres')));
  const missing = new Map<Need, string>();
  const redis = hasRedisServer() ? stack.use(await startOwnRedis()) : null;
  if (redis === null) missing.set('redis', 'there is no redis-server on the path');
  const mountProblem = await tryMount();
  if (mountProblem !== null) missing.set('mount', mountProblem);
  const owned = stack.move();
  return {
    postgresUrl: postgres.url,
    redisUrl: redis === null ? null : `redis://127.0.0.1:${redis.port}`,
    missing,
    report: [
      postgres.report,
      redis === null ? 'Redis: none, the queue is on Postgres' : 'Redis: a server of its own, without persistence',
    ],
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Why no file system can be mounted here; null: it can. */
async function tryMount(): Promise<string | null> {
  if (process.getuid?.() !== 0) return 'only root may mount a small disk';
  try {
    const disk = await mountSmallDisk();
    await disk[Symbol.asyncDispose]();
    return null;
  } catch (error) {
    return `a small disk cannot be mounted: ${error instanceof Error ? error.message.trim() : String(error)}`;
  }
}
