import type { JobKind } from '../domain/run/job.ts';
import { LIVENESS_PING_INTERVAL_MS, SIGN_OF_LIFE_INTERVAL_MS } from '../domain/tunables.ts';
import { type Log, toSafeError } from '../platform/log.ts';
import { openSteadyConnection } from '../platform/steady-connection.ts';
import type { Db } from '../store/db/database.ts';
import { markWorkerSeen, registerWorker, removeWorker } from '../store/work/workers.ts';

/** A sign of life without an answer for this long may be on a dead connection. The next one is sent then. */
const GIVE_UP_SIGN_AFTER_MS = 1_000;

/** Shown in pg_stat_activity. */
export const PRESENCE_APPLICATION = 'baton-worker-presence';

export type PresenceOptions = Readonly<{
  db: Db;
  /** A direct connection: a pooler would share the lock with others. */
  connectionString: string;
  workerId: string;
  kinds: readonly JobKind[];
  heartbeatIntervalMs: number;
  log: Log;
}>;

export type WorkerPresence = AsyncDisposable &
  Readonly<{
    /** Time since the lock was lost. 0: it is held. */
    lostForMs: () => number;
  }>;

/**
 * Makes the death of this worker visible within milliseconds: Postgres frees the advisory lock of its own connection.
 * If only that connection dies, the worker sends signs of life over the pool until it holds a new lock.
 * Dispose it after the last claim has ended.
 * @throws if the first connection fails
 */
export async function registerPresence(options: PresenceOptions): Promise<WorkerPresence> {
  const { db, connectionString, workerId, kinds, log } = options;
  const signs = createSignsOfLife(options);
  let lostAtMs: number | null = null;
  let registrations = 0;
  const worker = { id: workerId, kinds };
  const connection = await openSteadyConnection({
    connectionString,
    applicationName: PRESENCE_APPLICATION,
    pingIntervalMs: LIVENESS_PING_INTERVAL_MS,
    // Without one of these settings, a host that vanishes silently is only detected later.
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
      // Removed while the lock is held. Without its lock, a registered worker would look dead.
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
