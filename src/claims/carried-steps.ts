import { context, ROOT_CONTEXT } from '@opentelemetry/api';
import { type JobPayload, jobIdOf } from '../domain/run/job.ts';
import {
  CARRIED_IN_A_ROW,
  CARRIED_OUTCOMES_KEPT,
  PAUSE_ANSWER_HOLDS_MS,
  PAUSE_CHECK_INTERVAL_MS,
} from '../domain/tunables.ts';
import { type Log, toSafeError } from '../platform/log.ts';
import type { JobOutcome } from '../queues/job-queue.ts';

/**
 * The steps that this worker has begun without their jobs: it ended the steps before them, and goes on at once. The job
 * of such a step becomes its record when the queue gives it to this worker.
 */
export type CarriedSteps = Readonly<{
  /** Works on a job that the queue has given. If its step is carried or was, resolves with the outcome of that step. */
  accept: (job: JobPayload, work: () => Promise<JobOutcome>) => Promise<JobOutcome>;
  /**
   * Whether this worker may begin the step after this one itself. It may only while the queue gives it jobs: a step
   * whose own job went elsewhere, or still waits, is the last in its row.
   */
  mayCarryOn: (job: JobPayload) => boolean;
  /** Begins the step of `next`, which follows `job`. */
  carryOn: (job: JobPayload, next: JobPayload, work: () => Promise<JobOutcome>) => void;
  /** From now on, the steps that follow go through the queue. */
  stop: () => void;
  /** Resolves when no carried step is at work, also none that began while this waited. */
  settled: () => Promise<void>;
}>;

/** `ended`: also its job is added again, where that was needed. */
type Carried = Readonly<{ outcome: Promise<JobOutcome>; ended: Promise<void> }>;

/**
 * @param concurrency jobs that the worker takes at a time. If it has so many, others may wait: then a run gets only a few
 * steps in a row
 * @param isPaused asks the queue
 * @param addAgain adds the job of a step that failed its run. Another worker may have dropped it, and an operator needs it
 */
export function createCarriedSteps(
  options: Readonly<{
    log: Log;
    concurrency: number;
    isPaused: () => Promise<boolean>;
    addAgain: (job: JobPayload) => Promise<void>;
  }>,
): CarriedSteps {
  /** Jobs that the queue has given, and how many steps in a row their runs have had without it. */
  const queueJobs = new Map<string, number>();
  const carried = new Map<string, Carried>();
  const rows = new Map<string, number>();
  const atWork = new Set<Promise<void>>();
  let isStopped = false;
  const queue = createPauseWatch(options.isPaused, () => queueJobs.size > 0);
  return {
    async accept(job, work) {
      const id = jobIdOf(job);
      const step = carried.get(id);
      queueJobs.set(id, rows.get(id) ?? 0);
      rows.delete(id);
      queue.watch();
      try {
        return await (step === undefined ? work() : step.outcome);
      } finally {
        queueJobs.delete(id);
        if (step !== undefined) carried.delete(id);
      }
    },
    mayCarryOn(job) {
      const inARow = queueJobs.get(jobIdOf(job));
      if (isStopped || inARow === undefined || !queue.gives()) return false;
      return queueJobs.size < options.concurrency || inARow < CARRIED_IN_A_ROW;
    },
    carryOn(job, next, work) {
      const id = jobIdOf(next);
      rows.set(id, (queueJobs.get(jobIdOf(job)) ?? 0) + 1);
      // Its spans belong to the run, not to the step before it.
      const outcome = context.with(ROOT_CONTEXT, work);
      const ended = outcome
        .then((end) => (end.outcome === 'run-failed' && carried.has(id) ? options.addAgain(next) : undefined))
        .catch((error: unknown) =>
          options.log('error', { event: 'job_failed', runId: next.runId, error: toSafeError(error) }),
        )
        .finally(() => {
          rows.delete(id);
          atWork.delete(ended);
        });
      atWork.add(ended);
      carried.set(id, { outcome, ended });
      forgetOldest(carried, atWork);
    },
    stop() {
      isStopped = true;
    },
    async settled() {
      while (atWork.size > 0) await Promise.all(atWork);
    },
  };
}

/** Forgets a step that has ended, where too many are kept. */
function forgetOldest(carried: Map<string, Carried>, atWork: ReadonlySet<Promise<void>>): void {
  if (carried.size <= CARRIED_OUTCOMES_KEPT) return;
  for (const [oldest, { ended }] of carried) {
    if (!atWork.has(ended)) {
      carried.delete(oldest);
      return;
    }
  }
}

type PauseWatch = Readonly<{
  /** From now on the queue is asked, until the worker has no job. */
  watch: () => void;
  /** Whether the queue gives jobs. False as well if it has not answered of late. */
  gives: () => boolean;
}>;

/**
 * Asks by a timer, and not when a step ends: a step may take minutes, and the answer from before it would let the next
 * one begin in a queue that is paused for as long.
 */
function createPauseWatch(isPaused: () => Promise<boolean>, hasJobs: () => boolean): PauseWatch {
  let givesAsOfMs = Number.NEGATIVE_INFINITY;
  let timer: NodeJS.Timeout | null = null;
  let isAsking = false;
  const ask = async (): Promise<void> => {
    if (isAsking) return;
    isAsking = true;
    const askedAtMs = performance.now();
    // A queue that is away takes no jobs either.
    const paused = await isPaused().catch(() => true);
    givesAsOfMs = paused ? Number.NEGATIVE_INFINITY : askedAtMs;
    isAsking = false;
  };
  const tick = (): void => {
    if (hasJobs()) {
      void ask();
      return;
    }
    if (timer !== null) clearInterval(timer);
    timer = null;
  };
  return {
    watch() {
      if (timer !== null) return;
      timer = setInterval(tick, PAUSE_CHECK_INTERVAL_MS).unref();
      tick();
    },
    gives: () => performance.now() - givesAsOfMs < PAUSE_ANSWER_HOLDS_MS,
  };
}
