import type { Queue } from 'bullmq';
import type { ErrorRecord } from '../domain/errors.ts';
import type { JobKind, JobPayload } from '../domain/run/job.ts';
import type { JobReport } from '../domain/run/job-report.ts';
import type { PendingKind } from '../domain/run/run.ts';
import type { DeliveryReport } from '../domain/webhooks/after-attempt.ts';
import type { DeliveryJob } from '../domain/webhooks/delivery-job.ts';

/** The place of a job in the queue. `ended`: the queue keeps it as a record, and ignores a new job with its id. */
export type JobState = 'waiting' | 'delayed' | 'active' | 'ended' | 'missing';

/**
 * The result of a consumer.
 * `done`: acknowledged. With a report, the queue keeps the job for inspection. `next` is added first, at the head of the
 * queue: the consumer works on it already.
 * `later`: the job returns to the queue for `delayMs`, under the same id.
 * `run-failed`: acknowledged, and kept for a while for an operator to inspect and retry.
 */
export type JobOutcome = Readonly<
  | { outcome: 'done'; report?: JobReport; next?: JobPayload }
  | { outcome: 'later'; delayMs: number }
  | { outcome: 'run-failed'; error: ErrorRecord }
>;

export const JOB_COUNT_STATES = ['waiting', 'delayed', 'active', 'failed'] as const;
export type JobCounts = Readonly<Record<(typeof JOB_COUNT_STATES)[number], number>>;

/** `signal` aborts when the worker has lost the job. `isRetry`: an operator asked the queue to retry a failed job. */
export type JobHandler = (job: JobPayload, signal: AbortSignal, isRetry: boolean) => Promise<JobOutcome>;

/** Sends a delivery to its webhook. `signal` aborts when the worker has lost the job. Undefined: nothing to do. */
export type DeliveryHandler = (job: DeliveryJob, signal: AbortSignal) => Promise<DeliveryReport | undefined>;

export type JobConsumer = AsyncDisposable &
  Readonly<{
    /** Takes no more jobs. Active ones continue. */
    pause: () => Promise<void>;
    activeCount: () => number;
    /** False after a pause, and after its connection has ended it. */
    isTaking: () => boolean;
  }>;

export type RunConsumer = JobConsumer &
  Readonly<{
    /**
     * Takes this job past all others, beyond `concurrency`, if it waits, and works on it and on each job that it names as
     * its next one. Resolves when they have ended. If another worker is faster, it has the first job that waits.
     * @returns false: the queue gave none
     */
    take: (job: JobPayload) => Promise<boolean>;
  }>;

/** `isFirst`: before all waiting jobs. */
export type AddOptions = Readonly<{ delayMs?: number; isFirst?: boolean }>;

type ConsumeOptions = Readonly<{ concurrency: number; workerId?: string }>;

/** Delivery of jobs. It holds no truth: lost jobs are added again from the rows of `runs` and `webhook_deliveries`. */
export type JobQueues = AsyncDisposable &
  Readonly<{
    backend: 'redis' | 'postgres';
    /** Adds jobs; a known id is ignored. Rejects if the queue cannot be reached. */
    add: (jobs: readonly JobPayload[], options?: AddOptions) => Promise<void>;
    stateOf: (job: JobPayload) => Promise<JobState>;
    /** Lets a delayed job wait no longer. One that is not delayed stays as it is. */
    hasten: (job: JobPayload) => Promise<void>;
    /** The worker that took an active job. Null: the job is not active, or its consumer has no id. */
    takerOf: (job: JobPayload) => Promise<string | null>;
    takenBy: (workerId: string) => Promise<readonly JobPayload[]>;
    /** Starts to take jobs of one kind. The queue records the worker that took each job. */
    consume: (kind: PendingKind, handler: JobHandler, options: ConsumeOptions) => Promise<RunConsumer>;
    /** The queue of deliveries to webhooks. */
    deliveries: Readonly<{
      /** Adds jobs; a known id is ignored. Rejects if the queue cannot be reached. */
      add: (jobs: readonly DeliveryJob[]) => Promise<void>;
      consume: (handler: DeliveryHandler, options: ConsumeOptions) => Promise<JobConsumer>;
    }>;
    counts: () => Promise<Readonly<Record<JobKind, JobCounts>>>;
    /** Whether an operator has paused the queue of this kind. */
    isPaused: (kind: PendingKind) => Promise<boolean>;
    /** Number of kept jobs of failed runs that failed longer ago. */
    countFailed: (olderThanMs: number) => Promise<number>;
    /** Removes them and resolves with their number. */
    removeFailed: (olderThanMs: number) => Promise<number>;
    /** BullMQ's queues, for its dashboard. */
    bullQueues: () => readonly Queue[];
    /** Resolves if the queue answers and takes writes. */
    probe: () => Promise<void>;
  }>;
