import { DelayedError, type IQueueBackend, type Job, RedisConnection, UnrecoverableError, Worker } from 'bullmq';
import { type JobKind, type JobPayload, QUEUE_NAMES, queuedJobSchema } from '../domain/run/job.ts';
import type { JobReport } from '../domain/run/job-report.ts';
import type { PendingKind } from '../domain/run/run.ts';
import { queuedDeliverySchema } from '../domain/webhooks/delivery-job.ts';
import { type Log, toSafeError } from '../platform/log.ts';
import { forgetSilence } from '../platform/redis-connection.ts';
import { storeOf, type Transport } from './bullmq-transport.ts';
import type { DeliveryHandler, JobConsumer, JobHandler, JobQueues } from './job-queue.ts';
import { RETRY_AFTER_MS, takeSteadily } from './steady-taking.ts';

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

/** The handler works on a job of a run. `addNext` adds the job after it while the queue writes the outcome. */
type RunWork = Readonly<{ handler: JobHandler; addNext: (job: JobPayload) => void }>;

/** Works on the jobs of runs of one kind. @throws where the first connection fails */
export function startRunConsumer<Connection>(
  transport: Transport<Connection>,
  kind: PendingKind,
  work: RunWork,
  options: ConsumeOptions,
): Promise<JobConsumer> {
  return startConsumer(
    transport,
    kind,
    (job, token, signal) => processJob(transport.log, work, kind, job, token, signal),
    options,
  );
}

/** Works on deliveries to webhooks. @throws where the first connection fails */
export function startDeliveryConsumer<Connection>(
  transport: Transport<Connection>,
  handler: DeliveryHandler,
  options: ConsumeOptions,
): Promise<JobConsumer> {
  return startConsumer(
    transport,
    'delivery',
    (job, _token, signal) => processDelivery(transport.log, job, signal, handler),
    options,
  );
}

/** Works on a job. Undefined: the job had nothing to do, and the queue forgets it. */
type Processor = (job: Job, token: string | undefined, signal: AbortSignal) => Promise<JobReport | undefined>;

async function startConsumer<Connection>(
  transport: Transport<Connection>,
  kind: JobKind,
  work: Processor,
  { concurrency, workerId }: ConsumeOptions,
): Promise<JobConsumer> {
  let active = 0;
  let completed = 0;
  // BullMQ passes the signal only to processors that declare three parameters.
  const process = async (job: Job, token: string | undefined, signal: AbortSignal | undefined) => {
    active++;
    try {
      const report = await work(job, token, signal ?? new AbortController().signal);
      if (report === undefined) return;
      completed++;
      job.opts.removeOnComplete = completed % REMOVED_EVERY === 1 ? KEPT_COMPLETED : false;
      return report;
    } finally {
      active--;
    }
  };
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
  const worker = new Worker(QUEUE_NAMES[kind], process, options as never, transport.factory as never);
  const onError = (error: unknown): void =>
    transport.log('warn', { event: 'queue_error', queue: kind, error: toSafeError(error) });
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
  worker
    .run()
    .catch((error) => transport.log('error', { event: 'queue_error', queue: kind, error: toSafeError(error) }));
  return {
    pause: () => worker.pause(true),
    activeCount: () => active,
    isTaking: () => worker.isRunning() && !worker.isPaused(),
    async [Symbol.asyncDispose]() {
      taking[Symbol.dispose]();
      const waiting = await blockingClientOf(worker.getBackend());
      await worker.close();
      if (waiting !== null) forgetSilence(waiting);
      opened[Symbol.dispose]();
    },
  };
}

/** The connection on which a worker waits for work; null over Postgres. BullMQ keeps it to itself. */
async function blockingClientOf(backend: IQueueBackend): Promise<object | null> {
  const connection: unknown = Reflect.get(backend, 'blockingConnection');
  return connection instanceof RedisConnection ? await connection.client.catch(() => null) : null;
}

/** Returns undefined if the job had nothing to do. */
async function processJob(
  log: Log,
  { handler, addNext }: RunWork,
  kind: PendingKind,
  job: Job,
  token: string | undefined,
  signal: AbortSignal,
): Promise<JobReport | undefined> {
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
  if (outcome.next !== undefined) addNext(outcome.next);
  return outcome.report;
}

/** The outcome of a delivery stands in its row, so the queue keeps nothing of it. */
async function processDelivery(log: Log, job: Job, signal: AbortSignal, handler: DeliveryHandler): Promise<undefined> {
  const payload = queuedDeliverySchema.safeParse(job.data);
  if (!payload.success) {
    log('error', { event: 'job_invalid', queue: 'delivery', jobId: job.id ?? '' });
    throw new UnrecoverableError('the payload is not a job of this queue');
  }
  await handler(payload.data, signal).catch((error: unknown) => {
    log('error', { event: 'webhook_job_failed', deliveryId: payload.data.deliveryId, error: toSafeError(error) });
    throw error;
  });
}
