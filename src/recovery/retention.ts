import { BLOB_PAGE } from '../domain/tunables.ts';
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
  findTenantsWith,
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
  const isOver: IsOver = () => deps.signal?.aborted === true;
  const expired = await expiredSessions(db, isOver);
  const tenants = await findTenantsWith(db, 'sessions');
  const old = createBatches(
    tenants,
    isOver,
    eachSession(isOver, {
      find: (tenantId, after) => findOldSessions(db, tenantId, { before, after, limit: SESSION_BATCH }),
      remove: async (id) => Number(await deleteIfStale(db, id, before)),
    }),
  );
  const logs = createBatches(
    tenants,
    isOver,
    eachSession(isOver, {
      find: (tenantId, after) => findOldLogs(db, tenantId, { before, after, limit: SESSION_BATCH }),
      remove: (id) => inBatches(isOver, () => trimEvents(db, id, before, ROW_BATCH)),
    }),
  );
  const blobs = await orphanedBlobs(db, before, isOver);
  const audit = createBatches(await findTenantsWith(db, 'auditEntries'), isOver, async (tenantId) => {
    const removed = await trimAudit(db, tenantId, before, ROW_BATCH);
    return { removed, last: removed === 0 ? null : removed };
  });
  const rows = { sessions: 0, events: 0, blobs: 0, auditEntries: 0 };
  do {
    rows.sessions += (await expired.sweep()) + (await old.sweep());
    rows.events += await logs.sweep();
    rows.blobs += await blobs.sweep();
    rows.auditEntries += await audit.sweep();
  } while (!isOver() && [expired, old, logs, blobs, audit].some(({ hasMore }) => hasMore()));
  // Sessions that were deleted in a later sweep may have left files behind the places that were looked at.
  if (rows.sessions > 0) rows.blobs += await sweepAll(await orphanedBlobs(db, before, isOver), isOver);
  const failedJobs = isOver() ? 0 : await jobs.removeFailed(olderThanMs);
  const removed = { ...rows, failedJobs };
  log('info', { event: 'retention_applied', before: before.toISOString(), ...removed });
  return removed;
}

/** Removes expired idle sessions only. Returns how many; logs if there are any. */
export async function removeExpired({ db, log, signal }: Omit<RetentionDeps, 'jobs'>): Promise<number> {
  const isOver: IsOver = () => signal?.aborted === true;
  const sessions = await sweepAll(await expiredSessions(db, isOver), isOver);
  const others = { events: 0, blobs: 0, auditEntries: 0, failedJobs: 0 };
  if (sessions > 0) log('info', { event: 'retention_applied', before: null, sessions, ...others });
  return sessions;
}

type IsOver = () => boolean;

const expiredSessions = async (db: Db, isOver: IsOver): Promise<Batches> =>
  createBatches(
    await findTenantsWith(db, 'expiringSessions'),
    isOver,
    eachSession(isOver, {
      find: (tenantId, after) => findExpiredSessions(db, tenantId, after, SESSION_BATCH),
      remove: async (id) => Number(await deleteIfStale(db, id, null)),
    }),
  );

const orphanedBlobs = async (db: Db, before: Date, isOver: IsOver): Promise<Batches> =>
  createBatches(await findTenantsWith(db, 'blobs'), isOver, (tenantId, after: Uint8Array | null) =>
    deleteOrphanedBlobs(db, tenantId, { before, after, limit: BLOB_PAGE }),
  );

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

/**
 * Looks at the next batch of a tenant, behind this place; null: at its first one. `last`: the place to go on behind;
 * null: the tenant has no more.
 */
type TakeBatch<P> = (tenantId: string, after: P | null) => Promise<Readonly<{ removed: number; last: P | null }>>;

type WorkOnSessions = Readonly<{
  find: (tenantId: string, after: Place) => Promise<readonly Place[]>;
  remove: (sessionId: string) => Promise<number>;
}>;

/** Removes something of each session that is found. */
export function eachSession(isOver: IsOver, { find, remove }: WorkOnSessions): TakeBatch<Place> {
  return async (tenantId, after) => {
    const found = await find(tenantId, after ?? FIRST_PLACE);
    let removed = 0;
    for (const { id } of found) if (!isOver()) removed += await remove(id);
    return { removed, last: found.at(-1) ?? null };
  };
}

/** Goes through what many tenants have, of each a batch in its turn. */
export function createBatches<P>(tenants: readonly string[], isOver: IsOver, takeBatch: TakeBatch<P>): Batches {
  type Turn = Readonly<{ tenantId: string; after: P | null }>;
  let waiting: readonly Turn[] = tenants.map((tenantId) => ({ tenantId, after: null }));
  return {
    hasMore: () => waiting.length > 0,
    async sweep() {
      let all = 0;
      for (let left = BATCHES_PER_SWEEP; left > 0 && waiting.length > 0; left--) {
        const next: Turn[] = [];
        for (const { tenantId, after } of waiting) {
          if (isOver()) break;
          const { removed, last } = await takeBatch(tenantId, after);
          all += removed;
          if (last !== null) next.push({ tenantId, after: last });
        }
        waiting = next;
      }
      return all;
    },
  };
}

/** Sweeps until no tenant has more. */
async function sweepAll(batches: Batches, isOver: IsOver): Promise<number> {
  let removed = 0;
  do removed += await batches.sweep();
  while (!isOver() && batches.hasMore());
  return removed;
}

async function inBatches(isOver: IsOver, remove: () => Promise<number>): Promise<number> {
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
