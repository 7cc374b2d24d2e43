import { type Log, toSafeError } from '../platform/log.ts';
import { aroundMs, createLooker } from '../platform/looker.ts';
import type { JobQueues } from '../queues/job-queue.ts';
import { trimAudit } from '../store/around/audit.ts';
import {
  countRemovable,
  deleteIfStale,
  deleteOrphanedBlobs,
  FIRST_PLACE,
  findExpiredSessions,
  findOldLogs,
  findOldSessions,
  findTenantsOfSessions,
  type Place,
  type RemovableRows,
  timeBefore,
  trimEvents,
} from '../store/around/retention.ts';
import type { Db } from '../store/db/database.ts';

const DAY_MS = 86_400_000;
const INTERVAL_MS = 3_600_000;
/** Sessions of a tenant in one batch. Each is deleted in its own transaction. */
const SESSION_BATCH = 100;
/** Batches of a tenant in one sweep, before the other kinds of data have theirs. */
const BATCHES_PER_SWEEP = 10;
/** Rows that one transaction removes. */
const ROW_BATCH = 2_000;

type FailedJobs = Pick<JobQueues, 'countFailed' | 'removeFailed'>;
export type RetentionDeps = Readonly<{ db: Db; jobs: FailedJobs; log: Log; signal?: AbortSignal }>;
export type RetentionCounts = RemovableRows & Readonly<{ failedJobs: number }>;

/**
 * Removes older data: idle sessions that are stale or expired, then events of the other sessions, unreferenced blobs,
 * audit entries and failed jobs. Transactions are short and wait for no lock, so several processes may run this at
 * once. Tenants take turns, and a sweep takes so much of each: what one has keeps nobody else's waiting.
 */
export async function applyRetention(deps: RetentionDeps, olderThanMs: number): Promise<RetentionCounts> {
  const { db, jobs, log } = deps;
  const before = await timeBefore(db, olderThanMs);
  const isOver = (): boolean => deps.signal?.aborted === true;
  const expired = await expiredSessions(db, isOver);
  const tenants = await findTenantsOfSessions(db, 'all');
  const old = createBatches(tenants, isOver, {
    find: (tenantId, after) => findOldSessions(db, tenantId, { before, after, limit: SESSION_BATCH }),
    remove: async (id) => Number(await deleteIfStale(db, id, before)),
  });
  const logs = createBatches(tenants, isOver, {
    find: (tenantId, after) => findOldLogs(db, tenantId, { before, after, limit: SESSION_BATCH }),
    remove: (id) => inBatches(isOver, () => trimEvents(db, id, before, ROW_BATCH)),
  });
  const rows = { sessions: 0, events: 0, blobs: 0, auditEntries: 0 };
  do {
    rows.sessions += (await expired.sweep()) + (await old.sweep());
    rows.events += await logs.sweep();
    rows.blobs += await inBatches(isOver, () => deleteOrphanedBlobs(db, before, ROW_BATCH));
    rows.auditEntries += await inBatches(isOver, () => trimAudit(db, before, ROW_BATCH));
  } while (!isOver() && [expired, old, logs].some(({ hasMore }) => hasMore()));
  const failedJobs = isOver() ? 0 : await jobs.removeFailed(olderThanMs);
  const removed = { ...rows, failedJobs };
  log('info', { event: 'retention_applied', before: before.toISOString(), ...removed });
  return removed;
}

/** Removes expired idle sessions only. Returns how many; logs if there are any. */
export async function removeExpired({ db, log, signal }: Omit<RetentionDeps, 'jobs'>): Promise<number> {
  const isOver = (): boolean => signal?.aborted === true;
  const expired = await expiredSessions(db, isOver);
  let sessions = 0;
  do sessions += await expired.sweep();
  while (!isOver() && expired.hasMore());
  const others = { events: 0, blobs: 0, auditEntries: 0, failedJobs: 0 };
  if (sessions > 0) log('info', { event: 'retention_applied', before: null, sessions, ...others });
  return sessions;
}

const expiredSessions = async (db: Db, isOver: () => boolean): Promise<Batches> =>
  createBatches(await findTenantsOfSessions(db, 'expiring'), isOver, {
    find: (tenantId, after) => findExpiredSessions(db, tenantId, after, SESSION_BATCH),
    remove: async (id) => Number(await deleteIfStale(db, id, null)),
  });

/** Counts the data that `applyRetention` would remove now. */
export async function previewRetention(
  { db, jobs }: Pick<RetentionDeps, 'db' | 'jobs'>,
  olderThanMs: number,
): Promise<RetentionCounts> {
  const rows = await countRemovable(db, await timeBefore(db, olderThanMs));
  return { ...rows, failedJobs: await jobs.countFailed(olderThanMs) };
}

type Batches = Readonly<{
  /** Gives each tenant a few batches. Resolves with what was removed. */
  sweep: () => Promise<number>;
  /** Whether some tenant had more than a sweep takes. */
  hasMore: () => boolean;
}>;

type Work = Readonly<{
  find: (tenantId: string, after: Place) => Promise<readonly Place[]>;
  remove: (sessionId: string) => Promise<number>;
}>;

/** Goes through the sessions of many tenants, each of which has one page in its batch. */
export function createBatches(tenants: readonly string[], isOver: () => boolean, { find, remove }: Work): Batches {
  let waiting = tenants.map((tenantId) => ({ tenantId, after: FIRST_PLACE }));
  let removed = 0;
  /** Resolves with the place to go on from. Null: the tenant has no more. */
  const takeBatch = async (tenantId: string, after: Place): Promise<Place | null> => {
    const found = isOver() ? [] : await find(tenantId, after);
    for (const { id } of found) if (!isOver()) removed += await remove(id);
    return found.at(-1) ?? null;
  };
  return {
    hasMore: () => waiting.length > 0,
    async sweep() {
      removed = 0;
      for (let left = BATCHES_PER_SWEEP; left > 0 && waiting.length > 0; left--) {
        const next: typeof waiting = [];
        for (const { tenantId, after } of waiting) {
          const last = await takeBatch(tenantId, after);
          if (last !== null) next.push({ tenantId, after: last });
        }
        waiting = next;
      }
      return removed;
    },
  };
}

async function inBatches(isOver: () => boolean, remove: () => Promise<number>): Promise<number> {
  let removed = 0;
  for (let count = 1; count > 0 && !isOver(); removed += count) count = await remove();
  return removed;
}

/**
 * Applies retention now and about every hour. Disposing it waits for the current transaction.
 * @param retentionDays 0: only expired sessions are removed
 */
export function startRetention(deps: Omit<RetentionDeps, 'signal'>, retentionDays: number): AsyncDisposable {
  const stop = new AbortController();
  const work = async (): Promise<number> => {
    try {
      const stoppable = { ...deps, signal: stop.signal };
      await (retentionDays > 0 ? applyRetention(stoppable, retentionDays * DAY_MS) : removeExpired(stoppable));
    } catch (error) {
      deps.log('warn', { event: 'retention_failed', error: toSafeError(error) });
    }
    return aroundMs(INTERVAL_MS);
  };
  const looker = createLooker(work, 0);
  return {
    async [Symbol.asyncDispose]() {
      stop.abort();
      await looker[Symbol.asyncDispose]();
    },
  };
}
