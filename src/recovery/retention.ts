import { type Log, toSafeError } from '../platform/log.ts';
import type { JobQueues } from '../queues/job-queue.ts';
import { trimAudit } from '../store/audit.ts';
import type { Db } from '../store/database.ts';
import {
  countRemovable,
  deleteIfStale,
  deleteOrphanedBlobs,
  findOldLogs,
  findStaleSessions,
  type RemovableRows,
  timeBefore,
  trimEvents,
} from '../store/retention.ts';

const DAY_MS = 86_400_000;
const INTERVAL_MS = 3_600_000;
/** Sessions per query. Each is deleted in its own transaction. */
const SESSION_BATCH = 100;
/** Rows that one transaction removes. */
const ROW_BATCH = 2_000;
/** Sorts before every id. */
const NO_ID = '00000000-0000-0000-0000-000000000000';

type FailedJobs = Pick<JobQueues, 'countFailed' | 'removeFailed'>;
export type RetentionDeps = Readonly<{ db: Db; jobs: FailedJobs; log: Log; signal?: AbortSignal }>;
export type RetentionCounts = RemovableRows & Readonly<{ failedJobs: number }>;

/**
 * Removes older data: idle sessions that are stale or expired, then events of the other sessions, unreferenced blobs,
 * audit entries and failed jobs. Transactions are short and wait for no lock, so several processes may run this at
 * once.
 */
export async function applyRetention(deps: RetentionDeps, olderThanMs: number): Promise<RetentionCounts> {
  const { db, jobs, log } = deps;
  const before = await timeBefore(db, olderThanMs);
  const isOver = (): boolean => deps.signal?.aborted === true;
  const sessions = await deleteSessions(db, before, isOver);
  const events = await eachSession(
    isOver,
    (after) => findOldLogs(db, before, after, SESSION_BATCH),
    (id) => inBatches(isOver, () => trimEvents(db, id, before, ROW_BATCH)),
  );
  const blobs = await inBatches(isOver, () => deleteOrphanedBlobs(db, before, ROW_BATCH));
  const auditEntries = await inBatches(isOver, () => trimAudit(db, before, ROW_BATCH));
  const failedJobs = isOver() ? 0 : await jobs.removeFailed(olderThanMs);
  const removed = { sessions, events, blobs, auditEntries, failedJobs };
  log('info', { event: 'retention_applied', before: before.toISOString(), ...removed });
  return removed;
}

/** Removes expired idle sessions only. Returns how many; logs if there are any. */
export async function removeExpired({ db, log, signal }: Omit<RetentionDeps, 'jobs'>): Promise<number> {
  const sessions = await deleteSessions(db, null, () => signal?.aborted === true);
  const others = { events: 0, blobs: 0, auditEntries: 0, failedJobs: 0 };
  if (sessions > 0) log('info', { event: 'retention_applied', before: null, sessions, ...others });
  return sessions;
}

/** @param before null: only expired ones */
const deleteSessions = (db: Db, before: Date | null, isOver: () => boolean): Promise<number> =>
  eachSession(
    isOver,
    (after) => findStaleSessions(db, before, after, SESSION_BATCH),
    async (id) => Number(await deleteIfStale(db, id, before)),
  );

/** Counts the data that `applyRetention` would remove now. */
export async function previewRetention(
  { db, jobs }: Pick<RetentionDeps, 'db' | 'jobs'>,
  olderThanMs: number,
): Promise<RetentionCounts> {
  const rows = await countRemovable(db, await timeBefore(db, olderThanMs));
  return { ...rows, failedJobs: await jobs.countFailed(olderThanMs) };
}

async function eachSession(
  isOver: () => boolean,
  find: (afterId: string) => Promise<readonly string[]>,
  remove: (sessionId: string) => Promise<number>,
): Promise<number> {
  let removed = 0;
  for (let found = await find(NO_ID); found.length > 0; found = await find(found.at(-1) ?? NO_ID)) {
    for (const id of found) {
      if (isOver()) return removed;
      removed += await remove(id);
    }
  }
  return removed;
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
  let timer: NodeJS.Timeout | undefined;
  const work = async (): Promise<void> => {
    try {
      const stoppable = { ...deps, signal: stop.signal };
      await (retentionDays > 0 ? applyRetention(stoppable, retentionDays * DAY_MS) : removeExpired(stoppable));
    } catch (error) {
      deps.log('warn', { event: 'retention_failed', error: toSafeError(error) });
    }
    if (!stop.signal.aborted) timer = setTimeout(begin, INTERVAL_MS * (0.75 + Math.random() / 2)).unref();
  };
  let working = work();
  function begin(): void {
    working = work();
  }
  return {
    async [Symbol.asyncDispose]() {
      stop.abort();
      clearTimeout(timer);
      await working;
    },
  };
}
