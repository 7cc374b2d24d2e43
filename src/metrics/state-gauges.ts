import { Gauge, Registry } from 'prom-client';
import { JOB_KINDS } from '../domain/run/job.ts';
import { ACTIVE_RUN_STATUSES, PENDING_KINDS } from '../domain/run/run.ts';
import { SESSION_STATUSES } from '../domain/run/session.ts';
import { type Log, toSafeError } from '../platform/log.ts';
import { within } from '../platform/within.ts';
import { JOB_COUNT_STATES, type JobQueues } from '../queues/job-queue.ts';
import type { Db } from '../store/db/database.ts';
import { countWorkersByKind } from '../store/lists/fleet.ts';
import { countActiveRuns, countSessions } from '../store/lists/state-counts.ts';
import type { MetricsSource } from './metrics.ts';

/** However many scrapes there are, the database answers one query a second. */
const FRESH_FOR_MS = 1_000;

/** Sessions may be millions, and their numbers by status change slowly. */
const SESSIONS_FRESH_FOR_MS = 60_000;

const PATIENCE_MS = 2_000;

type StateDeps = Readonly<{ db: Db; jobs: Pick<JobQueues, 'counts'>; log: Log }>;
type Labelled = readonly [labels: Record<string, string>, value: number];

/**
 * The state of the whole service in Postgres and the queue, read when it is scraped. Every process that serves the API
 * shows the same numbers, so take the maximum, not the sum; numbers that cannot be read are left out.
 */
export function createStateGauges({ db, jobs, log }: StateDeps): MetricsSource {
  const registry = new Registry();
  const gauge = (name: string, help: string, labelNames: readonly string[]) => {
    const instrument = new Gauge({ name, help, labelNames: [...labelNames], registers: [registry] });
    const show = (values: readonly Labelled[]): void => {
      instrument.reset();
      // Without labels the gauge would still show a 0.
      if (labelNames.length === 0) instrument.remove();
      for (const [labels, value] of values) instrument.set(labels, value);
    };
    show([]);
    return show;
  };
  const runs = gauge('baton_runs', 'Runs that have not ended, by status.', ['status']);
  const throttled = gauge(
    'baton_runs_throttled',
    "Runs that wait for their tenant's other runs, not for a worker.",
    [],
  );
  const oldest = gauge(
    'baton_oldest_due_job_age_seconds',
    'Since the oldest unclaimed work was due, by kind; 0 if none is due.',
    ['kind'],
  );
  const queued = gauge('baton_queue_jobs', 'Jobs in the queues, by kind and state.', ['kind', 'state']);
  const sessions = gauge('baton_sessions', 'Sessions by status; up to a minute old.', ['status']);
  const workers = gauge('baton_workers_alive', 'Workers that hold their lock, by the kind of jobs that they take.', [
    'kind',
  ]);

  const sources = [
    source({ name: 'database', freshForMs: FRESH_FOR_MS, log, gauges: [runs, throttled, oldest] }, async () => {
      const counts = await countActiveRuns(db);
      runs(ACTIVE_RUN_STATUSES.map((status) => [{ status }, sum(counts.filter((row) => row.status === status))]));
      throttled([[{}, counts.reduce((total, row) => total + row.throttled, 0)]]);
      oldest(
        PENDING_KINDS.map((kind) => {
          const waits = counts.map((row) => (row.kind === kind ? (row.oldestDueMs ?? 0) : 0));
          return [{ kind }, Math.max(0, ...waits) / 1000];
        }),
      );
    }),
    source({ name: 'database', freshForMs: FRESH_FOR_MS, log, gauges: [workers] }, async () => {
      const counts = await countWorkersByKind(db);
      workers(JOB_KINDS.map((kind) => [{ kind }, counts[kind]]));
    }),
    source({ name: 'database', freshForMs: SESSIONS_FRESH_FOR_MS, log, gauges: [sessions] }, async () => {
      const counts = await countSessions(db);
      sessions(SESSION_STATUSES.map((status) => [{ status }, sum(counts.filter((row) => row.status === status))]));
    }),
    source({ name: 'queue', freshForMs: FRESH_FOR_MS, log, gauges: [queued] }, async () => {
      const counts = await jobs.counts();
      queued(
        JOB_KINDS.flatMap((kind) => JOB_COUNT_STATES.map((state): Labelled => [{ kind, state }, counts[kind][state]])),
      );
    }),
  ];
  return {
    registry,
    async refresh() {
      await Promise.all(sources.map((refresh) => refresh()));
    },
  };
}

type ShowValues = (values: readonly Labelled[]) => void;

/** Reads at most once per `freshForMs`, for all callers together. Without an answer it shows no values. */
function source(
  {
    name,
    freshForMs,
    log,
    gauges: shown,
  }: Readonly<{ name: 'database' | 'queue'; freshForMs: number; log: Log; gauges: readonly ShowValues[] }>,
  read: () => Promise<void>,
): () => Promise<void> {
  let reading: Promise<void> | null = null;
  let freshUntilMs = Number.NEGATIVE_INFINITY;
  const look = async (): Promise<void> => {
    try {
      await within(PATIENCE_MS, read());
      freshUntilMs = performance.now() + freshForMs;
    } catch (error) {
      for (const show of shown) show([]);
      log('warn', { event: 'metrics_source_failed', source: name, error: toSafeError(error) });
    } finally {
      reading = null;
    }
  };
  return async () => {
    if (reading === null && performance.now() >= freshUntilMs) reading = look();
    await reading;
  };
}

function sum(rows: readonly Readonly<{ count: number }>[]): number {
  return rows.reduce((total, { count }) => total + count, 0);
}
