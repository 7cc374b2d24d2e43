import type { JobPayload } from '../domain/run/job.ts';
import type { PendingKind } from '../domain/run/run.ts';
import { EXTRA_SLOTS_AFTER_MS, EXTRA_SLOTS_INTERVAL_MS, SWEEP_INTERVAL_MS } from '../domain/tunables.ts';
import { toSafeError } from '../platform/log.ts';
import { aroundMs, createLooker } from '../platform/looker.ts';
import type { JobHandler, JobQueues, RunConsumer } from '../queues/job-queue.ts';
import { type DueWork, findDueWork, findTenantsOfRuns } from '../store/work/due-work.ts';
import type { JobDeps } from './job-deps.ts';
import type { TenantsAtWork } from './tenants-at-work.ts';

export type ExtraSlots = Readonly<{
  /** The handler for the queue: it does the work, and notes how many slots are taken. */
  handler: JobHandler;
  /** From now on no work is taken. */
  stop: () => void;
  /** Resolves when no work is in an extra slot. */
  settled: () => Promise<void>;
}>;

type ExtraSlotsOptions = Readonly<{
  deps: Pick<JobDeps, 'db' | 'log'> & Readonly<{ jobs: Pick<JobQueues, 'stateOf' | 'isPaused'> }>;
  kind: PendingKind;
  /** Jobs of this kind that the worker takes from the queue at a time. */
  slots: number;
  atWork: TenantsAtWork;
  work: JobHandler;
  take: RunConsumer['take'];
}>;

/** Runs of one tenant from which on it gets no extra slots, and extra slots of all tenants: enough for two of them. */
export function sharesOf(slots: number): Readonly<{ ofTenant: number; extra: number }> {
  const ofTenant = Math.max(1, Math.floor(slots / 4));
  return { ofTenant, extra: 2 * ofTenant };
}

/**
 * Keeps one tenant from holding a worker. While the worker has jobs, it looks in Postgres for work that is due and still
 * waits, of tenants that have fewer runs in hand than another one and less than a quarter of the slots, and takes the jobs
 * of that work from the queue past all others, in extra slots. So neither runs that hang nor a queue full of another
 * tenant's jobs keep it waiting, and a tenant alone has all slots. Whether slots are free does not matter: a worker may be
 * slow to take jobs.
 *
 * Work whose job does not wait is left alone: another worker has the job, or the reconciler adds it.
 */
export function startExtraSlots(
  { deps, kind, slots, atWork, work, take }: ExtraSlotsOptions,
  intervalMs = EXTRA_SLOTS_INTERVAL_MS,
): ExtraSlots {
  const shares = sharesOf(slots);
  const working = new Set<Promise<void>>();
  const queueJobs = new Set<JobPayload>();
  let wasBusy = false;
  let isStopped = false;
  let after = '';

  const begin = ({ tenantId, job }: DueWork): void => {
    const noted = atWork.begin(job.runId, kind, tenantId);
    const ended = takeOne(deps, job, take).then((wasGiven) => {
      noted[Symbol.dispose]();
      working.delete(ended);
      if (wasGiven) looker.look();
    });
    working.add(ended);
  };
  const look = async (): Promise<void> => {
    wasBusy = queueJobs.size > 0;
    if (working.size >= shares.extra) return;
    const counts = await countAll(deps.db, atWork, kind, queueJobs);
    const { due, most, last } = await findOthersWork(deps.db, kind, { counts, perTenant: shares.ofTenant, after });
    after = last;
    // A queue that is away takes no jobs either.
    const isPaused = due.length === 0 || (await deps.jobs.isPaused(kind).catch(() => true));
    if (isPaused || isStopped) return;
    const free = due.filter(({ job }) => !atWork.has(job.runId));
    for (const each of inFairOrder(free, counts, most).slice(0, shares.extra - working.size)) begin(each);
  };
  const lookIfBusy = async (): Promise<number> => {
    try {
      if (wasBusy) await look();
      return aroundMs(intervalMs);
    } catch (error) {
      deps.log('warn', { event: 'sweep_failed', error: toSafeError(error) });
      return aroundMs(SWEEP_INTERVAL_MS);
    }
  };
  const looker = createLooker(lookIfBusy, aroundMs(intervalMs));
  return {
    async handler(job, signal, isRetry) {
      queueJobs.add(job);
      wasBusy = true;
      return work(job, signal, isRetry).finally(() => queueJobs.delete(job));
    },
    stop() {
      isStopped = true;
      void looker[Symbol.asyncDispose]();
    },
    async settled() {
      while (working.size > 0) await Promise.all(working);
    },
  };
}

/**
 * Finds due work of tenants that have fewer runs in hand than another one, and less than their share.
 * @returns `most`: runs in hand up to which a tenant gets extra slots; `last`: where the next search begins
 */
async function findOthersWork(
  db: JobDeps['db'],
  kind: PendingKind,
  { counts, perTenant, after }: Readonly<{ counts: ReadonlyMap<string, number>; perTenant: number; after: string }>,
): Promise<Readonly<{ due: readonly DueWork[]; most: number; last: string }>> {
  // A tenant alone has the most in hand, and gets no extra slot.
  const most = Math.min(perTenant, Math.max(0, ...counts.values()));
  if (most === 0) return { due: [], most, last: after };
  const without = [...counts].flatMap(([tenantId, count]) => (count < most ? [] : [tenantId]));
  const { due, last } = await findDueWork(db, kind, { without, after, perTenant, waitedMs: EXTRA_SLOTS_AFTER_MS });
  return { due, most, last: last ?? '' };
}

/** Runs in hand of each tenant, with those of jobs from the queue whose claims are still under way. */
async function countAll(
  db: JobDeps['db'],
  atWork: TenantsAtWork,
  kind: PendingKind,
  queueJobs: Iterable<JobPayload>,
): Promise<ReadonlyMap<string, number>> {
  const counts = new Map(atWork.counts(kind));
  const unknown = [...queueJobs].flatMap(({ runId }) => (atWork.has(runId) ? [] : [runId]));
  for (const tenantId of await findTenantsOfRuns(db, unknown)) counts.set(tenantId, (counts.get(tenantId) ?? 0) + 1);
  return counts;
}

/**
 * In the order of turns: the tenant that has the fewest runs in hand comes first, until each has its share.
 * @param due of each tenant in its own order
 */
export function inFairOrder(
  due: readonly DueWork[],
  counts: ReadonlyMap<string, number>,
  share: number,
): readonly DueWork[] {
  const placed = [...Map.groupBy(due, ({ tenantId }) => tenantId)].flatMap(([tenantId, own]) =>
    own.map((each, nth) => ({ each, place: (counts.get(tenantId) ?? 0) + nth })),
  );
  const within = placed.filter(({ place }) => place < share);
  return within.toSorted((a, b) => a.place - b.place).map(({ each }) => each);
}

/** Takes the job if it waits, and works on the run as long as this worker carries it on. False: it got no job. */
async function takeOne(deps: ExtraSlotsOptions['deps'], job: JobPayload, take: RunConsumer['take']): Promise<boolean> {
  try {
    return (await deps.jobs.stateOf(job)) === 'waiting' && (await take(job));
  } catch (error) {
    deps.log('warn', { event: 'sweep_failed', error: toSafeError(error) });
    return false;
  }
}
