import { hostname } from 'node:os';
import type { PendingKind } from '../domain/run/run.ts';
import { LIVENESS_PING_INTERVAL_MS, SIGN_OF_LIFE_INTERVAL_MS } from '../domain/tunables.ts';
import { type Log, toSafeError } from '../platform/log.ts';
import { openSteadyConnection } from '../platform/steady-connection.ts';
import type { Db } from '../store/database.ts';
import { markWorkerSeen, registerWorker, removeWorker } from '../store/workers.ts';

/** A sign of life that got no answer for this long may be on a dead connection: another one is sent. */
const GIVE_UP_SIGN_AFTER_MS = 1_000;

/** Shows in pg_stat_activity. */
export const PRESENCE_APPLICATION = 'baton-worker-presence';

export type PresenceOptions = Readonly<{
  db: Db;
  /** A direct connection: a pooler hands the lock to others. */
  connectionString: string;
  workerId: string;
  /** Of the jobs that it takes. */
  kinds: readonly PendingKind[];
  heartbeatIntervalMs: number;
  log: Log;
}>;

export type WorkerPresence = AsyncDisposable &
  Readonly<{
    /** Since the lock was lost; 0 while it is held. */
    lostForMs: () => number;
  }>;

/**
 * Makes the death of this worker known within milliseconds: a connection of its own holds a lock, which Postgres frees
 * when the process dies. While only that connection is gone, the worker says over the pool that it lives, until it
 * holds another lock. Disposed after the last run was let go of, it leaves nothing behind, and is at no moment taken for dead.
 * @throws when the first connection fails
 */
export async function registerPresence(options: PresenceOptions): Promise<WorkerPresence> {
  const { db, connectionString, workerId, kinds, log } = options;
  const signs = createSignsOfLife(options);
  let lostAtMs: number | null = null;
  let registrations = 0;
  const worker = { id: workerId, host: hostname(), pid: process.pid, kinds };
  const connection = await openSteadyConnection({
    connectionString,
    applicationName: PRESENCE_APPLICATION,
    pingIntervalMs: LIVENESS_PING_INTERVAL_MS,
    // Nothing is lost with a setting but time: a host that is gone without a word is found later.
    prepare: (client) => {
      registrations += 1;
      return registerWorker(client, worker, {
        onRefused: (error) => log('info', { event: 'worker_lock_error', workerId, error: toSafeError(error) }),
      });
    },
    onDown: () => {
      lostAtMs = performance.now();
      log('warn', { event: 'worker_lock_lost', workerId });
      signs.give();
    },
    onUpAgain: () => {
      lostAtMs = null;
      log('info', { event: 'worker_lock_regained', workerId });
    },
    onError: (error) => log('warn', { event: 'worker_lock_error', workerId, error: toSafeError(error) }),
  });
  const timer = setInterval(() => {
    if (!connection.isUp() || signs.lastMs() + options.heartbeatIntervalMs <= performance.now()) signs.give();
  }, SIGN_OF_LIFE_INTERVAL_MS).unref();
  return {
    lostForMs: () => (lostAtMs === null ? 0 : performance.now() - lostAtMs),
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      const leave = (): Promise<void> =>
        removeWorker(db, workerId).catch((error) =>
          log('warn', { event: 'worker_lock_error', workerId, error: toSafeError(error) }),
        );
      const before = registrations;
      // While it holds its lock: one that has let go of it is dead to the others, if Postgres takes long to forget it.
      await leave();
      await connection[Symbol.asyncDispose]();
      if (registrations !== before) await leave();
    },
  };
}

function createSignsOfLife({ db, workerId, log }: PresenceOptions) {
  let pending = 0;
  let lastMs = performance.now();
  return {
    lastMs: () => lastMs,
    give(): void {
      if (pending > 0 && performance.now() - lastMs < GIVE_UP_SIGN_AFTER_MS) return;
      lastMs = performance.now();
      pending += 1;
      markWorkerSeen(db, workerId)
        .catch((error) => log('warn', { event: 'worker_lock_error', workerId, error: toSafeError(error) }))
        .finally(() => {
          pending -= 1;
        });
    },
  };
}
