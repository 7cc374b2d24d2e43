import type { Queue } from 'bullmq';
import type { ErrorRecord } from '../domain/errors.ts';
import type { JobPayload } from '../domain/run/job.ts';
import type { JobReport } from '../domain/run/job-report.ts';
import type { PendingKind } from '../domain/run/run.ts';

/** Where the queue keeps a job. `waiting` covers delayed ones; `missing` covers finished ones, kept or not. */
export type JobState = 'waiting' | 'active' | 'missing';

/**
 * What a consumer did with a job. `done`: acknowledged, also when there was nothing to do; with a report the queue keeps it
 * for somebody to look at. `later`: goes back into the
 * queue for `delayMs`, under the same id. `run-failed`: done as well, but the queue keeps the job for a while, for
 * somebody to look at and to try again.
 */
export type JobOutcome = Readonly<
  | { outcome: 'done'; report?: JobReport }
  | { outcome: 'later'; delayMs: number }
  | { outcome: 'run-failed'; error: ErrorRecord }
>;

/** The states by which the jobs of a queue are counted. */
export const JOB_COUNT_STATES = ['waiting', 'delayed', 'active', 'failed'] as const;
export type JobCounts = Readonly<Record<(typeof JOB_COUNT_STATES)[number], number>>;

/**
 * `signal` is aborted when the queue knows that the job is no longer this worker's. `isRetry`: the job has failed
 * before, and somebody has asked the queue to try it again.
 */
export type JobHandler = (job: JobPayload, signal: AbortSignal, isRetry: boolean) => Promise<JobOutcome>;

export type JobConsumer = AsyncDisposable &
  Readonly<{
    /** Takes no more jobs; those in hand go on. */
    pause: () => Promise<void>;
    /** Jobs in hand. */
    activeCount: () => number;
    /** Whether it takes jobs: not after a pause, nor when its connection has ended it. */
    isTaking: () => boolean;
  }>;

/** `delayMs`: not before that. `isFirst`: before all that waits. */
export type AddOptions = Readonly<{ delayMs?: number; isFirst?: boolean }>;

/** Delivery of jobs. It owns no truth: what it loses is added again from the run rows. */
export type JobQueues = AsyncDisposable &
  Readonly<{
    backend: 'redis' | 'postgres';
    /** Adds jobs; one whose id the queue holds already is left as it is. Rejects when the queue cannot be reached. */
    add: (jobs: readonly JobPayload[], options?: AddOptions) => Promise<void>;
    /** Where the queue has this job. */
    stateOf: (job: JobPayload) => Promise<JobState>;
    /** Who has taken a job that is active; null where nobody has, or the consumer did not say its name. */
    takerOf: (job: JobPayload) => Promise<string | null>;
    /** The active jobs that this worker has taken. */
    takenBy: (workerId: string) => Promise<readonly JobPayload[]>;
    /** Starts taking jobs of one kind. The queue remembers of each job which worker has taken it. */
    consume: (
      kind: PendingKind,
      handler: JobHandler,
      options: Readonly<{ concurrency: number; workerId?: string }>,
    ) => Promise<JobConsumer>;
    /** How many jobs each queue has. */
    counts: () => Promise<Readonly<Record<PendingKind, JobCounts>>>;
    /** How many jobs of failed runs are kept that failed longer ago. */
    countFailed: (olderThanMs: number) => Promise<number>;
    /** Removes those; resolves with how many there were. */
    removeFailed: (olderThanMs: number) => Promise<number>;
    /** BullMQ's own view of the queues, for a page that shows them. */
    bullQueues: () => readonly Queue[];
    /** Resolves when the queue answers, and takes writes. */
    probe: () => Promise<void>;
  }>;
