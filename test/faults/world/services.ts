import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../../src/embedded/launcher.ts';
import { leaveBehind, type Restoring, restorable } from './older-clusters.ts';

/** A Postgres that belongs to the suite and may therefore be killed. */
export type OwnPostgres = AsyncDisposable &
  Readonly<{
    connectionString: () => string;
    port: () => number;
    /** Kills the server as a crash would, and starts it again on the same data: elsewhere, by another port. */
    crashAndRestart: () => Promise<void>;
    /** Copies the server as it is now, while it works. */
    backUp: (restoring: Restoring) => Promise<OlderState>;
    /** Starts a standby, and lets it fall behind from now on. */
    leaveBehind: () => Promise<OlderState>;
  }>;

/** A state of a server that it can go back to. */
export type OlderState = AsyncDisposable &
  Readonly<{
    /** What was answered until then is in it, by `performance.now()`. */
    keptAtMs: number;
    /** Kills the server, and starts this state in its place, by another port. */
    goBack: () => Promise<void>;
  }>;

/** A Redis that belongs to the suite and may therefore be emptied and killed. It keeps nothing on disk by itself. */
export type OwnRedis = AsyncDisposable &
  Readonly<{
    port: number;
    /** @returns how many keys are gone */
    flush: () => Promise<number>;
    crashAndRestart: (downMs: number) => Promise<void>;
    /** Kills the server, and starts another one in its place: with these arguments besides, or as before. */
    replace: (more?: readonly string[]) => Promise<void>;
    /** Writes a snapshot of all keys. @returns kills the server, and starts it again with that snapshot */
    snapshot: () => Promise<() => Promise<void>>;
  }>;

/** Starts a Postgres of its own, from npm's binaries. @param folder where its data are */
export async function startOwnPostgres(folder: string = tmpdir()): Promise<OwnPostgres> {
  const newFolder = (): Promise<string> => mkdtemp(join(folder, 'baton-faults-'));
  let dataDir = await newFolder();
  let postgres: EmbeddedPostgres = await startEmbeddedPostgres({ dataDir });
  const crash = async (): Promise<void> => {
    process.kill(postgres.pid, 'SIGKILL');
    // It has ended already, and not as it should.
    await Promise.allSettled([postgres[Symbol.asyncDispose]()]);
  };
  const older = async (make: typeof leaveBehind): Promise<OlderState> => {
    const copy = await newFolder();
    const made = await make({ port: postgres.port, dataDir }, copy);
    return {
      keptAtMs: made.keptAtMs,
      async goBack() {
        await crash();
        const before = dataDir;
        postgres = await made.start();
        dataDir = copy;
        await rm(before, { recursive: true, force: true });
      },
      async [Symbol.asyncDispose]() {
        if (dataDir === copy) return;
        await made[Symbol.asyncDispose]();
        await rm(copy, { recursive: true, force: true });
      },
    };
  };
  return {
    connectionString: () => postgres.connectionString,
    port: () => postgres.port,
    async crashAndRestart() {
      await crash();
      postgres = await startEmbeddedPostgres({ dataDir });
    },
    backUp: (restoring) => older((server, copy) => restorable(server, copy, restoring)),
    leaveBehind: () => older(leaveBehind),
    async [Symbol.asyncDispose]() {
      await postgres[Symbol.asyncDispose]();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

/** Whether this machine has the program that `startOwnRedis` runs. */
export function hasRedisServer(): boolean {
  return spawnSync('redis-server', ['--version']).status === 0;
}

/**
 * Starts a Redis of its own.
 * @param more arguments of `redis-server`
 * @throws when there is no `redis-server` on the path
 */
export async function startOwnRedis(more: readonly string[] = []): Promise<OwnRedis> {
  const port = await freePort();
  const folder = await mkdtemp(join(tmpdir(), 'baton-faults-redis-'));
  const [dump, kept] = [join(folder, 'dump.rdb'), join(folder, 'kept.rdb')];
  const settings = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', ...more];
  const start = (besides: readonly string[] = []): ChildProcess =>
    spawn('redis-server', [...settings, ...besides], { cwd: folder, stdio: 'ignore' });
  let server = start();
  await answering(port).catch(async (error) => {
    await end(server);
    throw error;
  });
  return {
    port,
    flush: () =>
      withRedis(port, async (redis) => {
        const keys = await redis.dbsize();
        await redis.flushall();
        return keys;
      }),
    async crashAndRestart(downMs) {
      await end(server);
      await delay(downMs);
      server = start();
      await answering(port);
    },
    async replace(besides) {
      await end(server);
      server = start(besides);
      await answering(port);
    },
    async snapshot() {
      await withRedis(port, (redis) => redis.save());
      await rename(dump, kept);
      return async () => {
        await end(server);
        await copyFile(kept, dump);
        server = start();
        await answering(port);
        // Another restart finds nothing, as ever.
        await rm(dump);
      };
    },
    async [Symbol.asyncDispose]() {
      await end(server);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Starts a sentinel that alone decides when the master `mymaster` is gone. @param folder where it keeps its file */
export async function startSentinel(folder: string, masterPort: number): Promise<AsyncDisposable & { port: number }> {
  const port = await freePort();
  const file = join(folder, 'sentinel.conf');
  const settings = [
    ...[`port ${port}`, 'bind 127.0.0.1', `dir ${folder}`, `sentinel monitor mymaster 127.0.0.1 ${masterPort} 1`],
    ...['sentinel down-after-milliseconds mymaster 500', 'sentinel failover-timeout mymaster 3000'],
  ];
  await writeFile(file, settings.join('\n'));
  const server = spawn('redis-server', [file, '--sentinel'], { cwd: folder, stdio: 'ignore' });
  await answering(port).catch(async (error) => {
    await end(server);
    throw error;
  });
  return { port, [Symbol.asyncDispose]: () => end(server) };
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

async function withRedis<T>(port: number, work: (redis: Redis) => Promise<T>): Promise<T> {
  const redis = new Redis({ port, host: '127.0.0.1', lazyConnect: true, retryStrategy: () => null });
  redis.on('error', () => undefined);
  try {
    await redis.connect();
    return await work(redis);
  } finally {
    redis.disconnect();
  }
}

const ANSWERS_WITHIN_TRIES = 200;

async function answering(port: number): Promise<void> {
  for (let left = ANSWERS_WITHIN_TRIES; ; left--) {
    try {
      await withRedis(port, (redis) => redis.ping());
      return;
    } catch (error) {
      if (left === 0) throw new Error('redis-server does not answer', { cause: error });
      await delay(25);
    }
  }
}

/** A port of loopback that nobody listens on. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new Error('no free port');
  return address.port;
}
