import { setTimeout as delay } from 'node:timers/promises';
import { DelayedError, type IQueueBackend, type Job, RedisConnection, UnrecoverableError, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { type JobKind, type JobPayload, jobIdOf, QUEUE_NAMES, queuedJobSchema } from '../domain/run/job.ts';
import type { JobReport } from '../domain/run/job-report.ts';
import type { PendingKind } from '../domain/run/run.ts';
import type { DeliveryReport } from '../domain/webhooks/after-attempt.ts';
import { queuedDeliverySchema } from '../domain/webhooks/delivery-job.ts';
import { type Log, toSafeError } from '../platform/log.ts';
import { endConnection, forgetSilence } from '../platform/redis-connection.ts';
import { ANSWER_WITHIN_MS, storeOf, type Transport } from './bullmq-transport.ts';
import { handOverNext, type NextJobs } from './hand-over.ts';
import type { DeliveryHandler, JobConsumer, JobHandler, JobOutcome, JobQueues, RunConsumer } from './job-queue.ts';
import { RETRY_AFTER_MS, takeSteadily } from './steady-taking.ts';
import { type TakeFirst, takesFirst } from './take-first.ts';

/** Jobs of failed runs, for an operator to inspect and retry. Age in seconds. */
const KEPT_FAILED = { age: 7 * 86_400, count: 1_000 };
/** More failed jobs than a queue ever keeps. */
export const MAX_FAILED = 10 * KEPT_FAILED.count;

/**
 * Jobs that did something. Age in seconds. Only every 50th job removes those beyond age and count, because Postgres
 * reads all kept jobs for that. When each job did so, it took a fifth of Postgres' time for a step.
 */
const KEPT_COMPLETED = { age: 3_600, count: 1_000 };
const REMOVED_EVERY = 50;

/** The run limits its own recoveries, so BullMQ must never fail a stalled job. */
const MAX_STALLED_COUNT = 1_000_000;

type ConsumeOptions = Parameters<JobQueues['consume']>[2];

/** The handler works on a job of a run. */
type RunWork = Readonly<{ handler: JobHandler }> & Pick<NextJobs, 'entryOf' | 'addNext'>;

/** Works on the jobs of runs of one kind. @throws where the first connection fails */
export async function startRunConsumer<Connection>(
  transport: Transport<Connection>,
  kind: PendingKind,
  work: RunWork,
  options: ConsumeOptions,
): Promise<RunConsumer> {
  const nextJobs = new Map<string, JobPayload>();
  const nextOf = (jobId: string): JobPayload | undefined => {
    const next = nextJobs.get(jobId);
    nextJobs.delete(jobId);
    return next;
  };
  const consumer = await startConsumer(
    transport,
    {
      kind,
      work: async (job, token, signal) => {
        const done = await processJob(transport.log, work, kind, { job, token, signal });
        if (done.next !== undefined && job.id !== undefined) nextJobs.set(job.id, done.next);
        return done.report;
      },
    },
    options,
    (worker) => handOverNext(worker, { ...work, nextOf }),
  );
  return { ...consumer, take: (job) => consumer.takeFirst(jobIdOf(job), (jobId) => nextJobs.has(jobId)) };
}

/** Works on deliveries to webhooks. @throws where the first connection fails */
export function startDeliveryConsumer<Connection>(
  transport: Transport<Connection>,
  handler: DeliveryHandler,
  options: ConsumeOptions,
): Promise<JobConsumer> {
  return startConsumer(
    transport,
    { kind: 'delivery', work: (job, _token, signal) => processDelivery(transport.log, job, signal, handler) },
    options,
  );
}

type Report = JobReport | DeliveryReport;

/** Works on a job. Undefined: the job had nothing to do, and the queue forgets it. */
type Processor = (job: Job, token: string | undefined, signal: AbortSignal) => Promise<Report | undefined>;

type Consumer = JobConsumer &
  Readonly<{
    /** As `take` of a `RunConsumer`. `hasNext`: whether the job with this id, which has ended, names the next one. */
    takeFirst: (jobId: string, hasNext: (jobId: string) => boolean) => Promise<boolean>;
  }>;

/** What a consumer has in hand, and has done. */
type Tally = { readonly inHand: Set<Promise<Report | undefined>>; endedAtMs: number; completed: number };

async function startConsumer<Connection>(
  transport: Transport<Connection>,
  { kind, work }: Readonly<{ kind: JobKind; work: Processor }>,
  { concurrency, workerId }: ConsumeOptions,
  prepare: (worker: Worker) => void = () => undefined,
): Promise<Consumer> {
  const { log } = transport;
  const tally: Tally = { inHand: new Set(), endedAtMs: Number.NEGATIVE_INFINITY, completed: 0 };
  const opened = transport.workerConnection();
  const options = {
    connection: opened.connection,
    ...transport.prefix,
    concurrency,
    ...(workerId === undefined ? {} : { name: workerId }),
    maxStalledCount: MAX_STALLED_COUNT,
    autorun: false,
    runRetryDelay: RETRY_AFTER_MS,
  };
  const worker = new Worker(QUEUE_NAMES[kind], processorOf(work, tally), options as never, transport.factory as never);
  prepare(worker);
  const past = takePast(worker, takesFirst(worker), tally);
  const onError = (error: unknown): void =>
    log('warn', { event: 'queue_error', queue: kind, error: toSafeError(error) });
  worker.on('error', onError);
  const taking = takeSteadily(worker.getBackend(), {
    isOver: () => worker.isPaused(),
    onError,
    report: transport.watch?.of(`take jobs of ${QUEUE_NAMES[kind]}`, storeOf(transport.backend)),
  });
  worker.on('lockRenewalFailed', (jobIds: string[]) => {
    for (const id of jobIds) worker.cancelJob(id, 'lock-lost');
  });
  try {
    await worker.waitUntilReady();
  } catch (error) {
    // Over Postgres, BullMQ remembers the failure: a running worker would retry without a pause.
    await worker.close();
    opened[Symbol.dispose]();
    throw error;
  }
  worker.run().catch((error) => log('error', { event: 'queue_error', queue: kind, error: toSafeError(error) }));
  return {
    pause: () => worker.pause(true),
    activeCount: () => tally.inHand.size,
    isTaking: () => worker.isRunning() && !worker.isPaused(),
    takeFirst: past.take,
    async [Symbol.asyncDispose]() {
      taking[Symbol.dispose]();
      await past[Symbol.asyncDispose]();
      const idleForMs = (): number => (tally.inHand.size > 0 ? 0 : performance.now() - tally.endedAtMs);
      await closeWorker(worker, idleForMs);
      await Promise.allSettled(tally.inHand);
      opened[Symbol.dispose]();
    },
  };
}

/**
 * Takes jobs past all others and beyond the worker's concurrency. The worker renews its hold on them as on others. Disposing
 * it takes no more, and waits until the queue has the outcomes, for which BullMQ's own close does not wait.
 */
function takePast(
  worker: Worker,
  takeFirst: TakeFirst,
  tally: Tally,
): AsyncDisposable & Readonly<{ take: Consumer['takeFirst'] }> {
  const working = new Set<Promise<void>>();
  let taken = 0;
  let isOver = false;
  const workOn = async (first: Job, token: string, hasNext: (jobId: string) => boolean): Promise<void> => {
    let job: Job | null = first;
    while (job !== null) {
      const { id = '' }: Job = job;
      job = (await worker.processJob(job, token, () => !isOver && hasNext(id))) ?? null;
    }
  };
  return {
    async take(jobId, hasNext) {
      if (isOver || worker.isPaused()) return false;
      const token = `${worker.id}:past-${taken++}`;
      const job = await takeFirst(jobId, token);
      if (job === null) return false;
      const ended = workOn(job, token, hasNext).finally(() => working.delete(ended));
      working.add(ended);
      await ended;
      return true;
    },
    async [Symbol.asyncDispose]() {
      isOver = true;
      const idle = Promise.allSettled(tally.inHand).then(() => delay(ANSWER_WITHIN_MS, undefined, { ref: false }));
      await Promise.race([Promise.allSettled(working), idle]);
    },
  };
}

/** BullMQ passes the signal only to processors that declare three parameters. */
function processorOf(work: Processor, tally: Tally) {
  return async (job: Job, token: string | undefined, signal: AbortSignal | undefined) => {
    // It is in hand before it begins.
    const working = Promise.resolve().then(() => work(job, token, signal ?? new AbortController().signal));
    tally.inHand.add(working);
    try {
      const report = await working;
      if (report === undefined) return;
      tally.completed++;
      job.opts.removeOnComplete = tally.completed % REMOVED_EVERY === 1 ? KEPT_COMPLETED : false;
      return report;
    } finally {
      tally.inHand.delete(working);
      tally.endedAtMs = performance.now();
    }
  };
}

const LOOK_AGAIN_MS = 100;

/**
 * Closes a worker. BullMQ waits for a Redis that is away until it is back: once no job is in hand, and Redis has had
 * time to take the outcome of the last one, its connections are ended. Other workers find the job.
 */
async function closeWorker(worker: Worker, idleForMs: () => number): Promise<void> {
  const clients = await clientsOf(worker.getBackend());
  const askedAtMs = performance.now();
  const isOver = (client: Redis): boolean => {
    if (client.status === 'end') return false;
    const silentForMs = client.status === 'ready' ? performance.now() - askedAtMs : Number.POSITIVE_INFINITY;
    return Math.min(silentForMs, idleForMs()) >= ANSWER_WITHIN_MS;
  };
  const endThem = (): void => clients.filter(isOver).forEach(endConnection);
  endThem();
  const looking = setInterval(endThem, LOOK_AGAIN_MS);
  await worker.close().finally(() => clearInterval(looking));
  clients.forEach(forgetSilence);
}

/** The connections of a worker; none over Postgres. BullMQ keeps them to itself. */
async function clientsOf(backend: IQueueBackend): Promise<Redis[]> {
  const connections = ['connection', 'blockingConnection'].map((name): unknown => Reflect.get(backend, name));
  const clients = connections.map((each) => (each instanceof RedisConnection ? each.client.catch(() => null) : null));
  return (await Promise.all(clients)).filter((client) => client instanceof Redis);
}

type Done = Extract<JobOutcome, { outcome: 'done' }>;

async function processJob(
  log: Log,
  { handler }: RunWork,
  kind: PendingKind,
  { job, token, signal }: Readonly<{ job: Job; token: string | undefined; signal: AbortSignal }>,
): Promise<Done> {
  const payload = queuedJobSchema.safeParse(job.data);
  if (!payload.success || payload.data.kind !== kind) {
    log('error', { event: 'job_invalid', queue: kind, jobId: job.id ?? '' });
    throw new UnrecoverableError('the payload is not a job of this queue');
  }
  const outcome = await handler(payload.data, signal, job.attemptsMade > 0).catch((error: unknown) => {
    log('error', { event: 'job_failed', runId: payload.data.runId, error: toSafeError(error) });
    throw error;
  });
  if (outcome.outcome === 'run-failed') {
    job.opts.removeOnFail = KEPT_FAILED;
    const { code, message } = outcome.error;
    const failure = new UnrecoverableError(`${code}: ${message}`);
    // The stack would be stored and shown with the job, although the queue's code is not at fault.
    failure.stack = '';
    throw failure;
  }
  if (outcome.outcome === 'later') {
    await job.moveToDelayed(Date.now() + outcome.delayMs, token);
    throw new DelayedError();
  }
  return outcome;
}

async function processDelivery(
  log: Log,
  job: Job,
  signal: AbortSignal,
  handler: DeliveryHandler,
): Promise<DeliveryReport | undefined> {
  const payload = queuedDeliverySchema.safeParse(job.data);
  if (!payload.success) {
    log('error', { event: 'job_invalid', queue: 'delivery', jobId: job.id ?? '' });
    throw new UnrecoverableError('the payload is not a job of this queue');
  }
  return handler(payload.data, signal).catch((error: unknown) => {
    log('error', { event: 'webhook_job_failed', deliveryId: payload.data.deliveryId, error: toSafeError(error) });
    throw error;
  });
}
