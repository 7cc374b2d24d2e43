import { SpanKind } from '@opentelemetry/api';
import {
  type BackendFactory,
  type ConnectionOptions,
  createPostgresBackend,
  DelayedError,
  type IQueueBackend,
  type Job,
  type JobsOptions,
  type PgPool,
  Queue,
  RedisQueueBackend,
  UnrecoverableError,
  Worker,
} from 'bullmq';
import { BatonError } from '../domain/errors.ts';
import {
  JOB_KINDS,
  type JobKind,
  type JobPayload,
  jobIdOf,
  QUEUE_NAMES,
  queuedJobSchema,
  toQueuedJob,
} from '../domain/run/job.ts';
import type { JobReport } from '../domain/run/job-report.ts';
import { PENDING_KINDS, type PendingKind } from '../domain/run/run.ts';
import { deliveryJobId, queuedDeliverySchema, toQueuedDelivery } from '../domain/webhooks/delivery-job.ts';
import { type Log, toSafeError } from '../platform/log.ts';
import { currentTraceparent, inSpan } from '../platform/tracing.ts';
import {
  type DeliveryHandler,
  JOB_COUNT_STATES,
  type JobConsumer,
  type JobCounts,
  type JobHandler,
  type JobQueues,
  type JobState,
} from './job-queue.ts';
import { queueSchemaOf } from './migrate.ts';
import { openQueuePool } from './queue-pool.ts';

export type QueueOptions = Readonly<
  { log: Log } & (
    | { backend: 'redis'; url: string; prefix: string }
    | { backend: 'postgres'; connectionString: string; schema?: string | undefined; maxConnections?: number }
  )
>;

/**
 * The queue delivers a job once; the run decides about retries. A job with nothing to do is removed, because BullMQ
 * ignores a new job with a known id and the run may need this one again.
 */
const JOB_OPTIONS = { attempts: 1, removeOnComplete: true, removeOnFail: true } satisfies JobsOptions;

/** Jobs of failed runs, for an operator to inspect and retry. Age in seconds. */
const KEPT_FAILED = { age: 7 * 86_400, count: 1_000 };
/** More failed jobs than a queue ever keeps. */
const MAX_FAILED = 10 * KEPT_FAILED.count;

/** Jobs that did something. The number is enforced only with every 50th job, because Postgres scans all to count. */
const KEPT_COMPLETED = { age: 3_600, count: 1_000 };
const COUNTED_EVERY = 50;

/** The run limits its own recoveries, so BullMQ must never fail a stalled job. */
const MAX_STALLED_COUNT = 1_000_000;

/** A call without an answer for this long is given up. The reconciler adds the job later. */
const ANSWER_WITHIN_MS = 5_000;

/** Postgres connections of each queue, and of each worker for its queries. */
export const QUEUE_POOL_CONNECTIONS = 4;

/** Time to live of the probe's key in Redis. */
const PROBE_KEPT_MS = 60_000;

/** Pause of a worker after a failed request to its queue. BullMQ's default of 15 s outlasts most outages. */
const RETRY_AFTER_MS = 1_000;

export function createJobQueues(options: QueueOptions): JobQueues {
  return options.backend === 'redis' ? redisQueues(options) : postgresQueues(options);
}

type Transport<Connection> = Readonly<{
  backend: JobQueues['backend'];
  log: Log;
  factory: BackendFactory<IQueueBackend, Connection> | undefined;
  prefix: { prefix?: string };
  queueConnection: () => Opened<Connection>;
  workerConnection: () => Opened<Connection>;
}>;

/** Disposed when its queue or worker is closed. */
type Opened<Connection> = AsyncDisposable & Readonly<{ connection: Connection }>;

function redisQueues(options: Extract<QueueOptions, { backend: 'redis' }>): JobQueues {
  const { url } = options;
  // BullMQ itself closes connections that it opens from options.
  const opened = (connection: ConnectionOptions) => () => ({
    connection,
    [Symbol.asyncDispose]: async () => undefined,
  });
  return openQueues<ConnectionOptions>({
    backend: 'redis',
    log: options.log,
    factory: undefined,
    prefix: { prefix: options.prefix },
    queueConnection: opened({
      url,
      maxRetriesPerRequest: 1,
      enableOfflineQueue: true,
      commandTimeout: ANSWER_WITHIN_MS,
    }),
    workerConnection: opened({ url, maxRetriesPerRequest: null }),
  });
}

function postgresQueues(options: Extract<QueueOptions, { backend: 'postgres' }>): JobQueues {
  const { connectionString, log, maxConnections = QUEUE_POOL_CONNECTIONS } = options;
  const schema = queueSchemaOf(options.schema);
  const opened = (max: number) => () => {
    const pool = { connectionString, schema, maxConnections: max, answerWithinMs: ANSWER_WITHIN_MS };
    const connection = openQueuePool(pool);
    return { connection, [Symbol.asyncDispose]: () => connection[Symbol.asyncDispose]() };
  };
  return openQueues<PgPool>({
    backend: 'postgres',
    log,
    factory: createPostgresBackend as BackendFactory<IQueueBackend, PgPool>,
    prefix: {},
    queueConnection: opened(maxConnections),
    // One more, for LISTEN.
    workerConnection: opened(maxConnections + 1),
  });
}

function openQueues<Connection>(transport: Transport<Connection>): JobQueues {
  const opened = JOB_KINDS.map((kind) => openQueue(transport, kind));
  const queues = new Map(opened.map(({ kind, queue }) => [kind, queue]));
  const consumers = new Set<JobConsumer>();
  const adding = new Set<Promise<unknown>>();
  const queueOf = (kind: JobKind): Queue => {
    const queue = queues.get(kind);
    if (queue === undefined) throw new Error(`no queue for ${kind}`);
    return queue;
  };
  const add: JobQueues['add'] = async (jobs, { delayMs, isFirst = false } = {}) => {
    const place = { ...(delayMs !== undefined && { delay: delayMs }), ...(isFirst && { lifo: true }) };
    for (const [kind, ofKind] of Map.groupBy(jobs, (job) => job.kind)) {
      const entries = ofKind.map((job) => ({
        name: kind,
        data: toQueuedJob(job),
        opts: { ...JOB_OPTIONS, ...place, jobId: jobIdOf(job) },
      }));
      const sending = inSendSpan(kind, () => answered(addJobs(queueOf(kind), entries)));
      adding.add(sending);
      await sending.finally(() => adding.delete(sending));
    }
  };
  /** Not awaited: the end of the job before it, which follows, takes it if no other worker is faster. */
  const addNext = (job: JobPayload): void => {
    add([job], { isFirst: true }).catch((error: unknown) => {
      transport.log('warn', { event: 'jobs_not_enqueued', runIds: [job.runId], error: toSafeError(error) });
    });
  };
  return {
    backend: transport.backend,
    add,
    async stateOf(job) {
      return toJobState(await answered(queueOf(job.kind).getJobState(jobIdOf(job))));
    },
    async takerOf(job) {
      return (await answered(queueOf(job.kind).getJob(jobIdOf(job))))?.processedBy ?? null;
    },
    async takenBy(workerId) {
      const active = await Promise.all(PENDING_KINDS.map((kind) => answered(queueOf(kind).getActive())));
      // A job that has ended since the list was read has no data.
      return active.flat().flatMap((job) => {
        const payload = queuedJobSchema.safeParse(job?.data);
        return payload.success && job.processedBy === workerId ? [payload.data] : [];
      });
    },
    async consume(kind, handler, consumeOptions) {
      const work: Processor = (job, token, signal) =>
        processJob({ log: transport.log, addNext }, kind, job, token, signal, handler);
      const consumer = await startConsumer(transport, kind, work, consumeOptions);
      consumers.add(consumer);
      return consumer;
    },
    deliveries: {
      async add(jobs) {
        const entries = jobs.map((job) => ({
          name: 'delivery',
          data: toQueuedDelivery(job),
          opts: { ...JOB_OPTIONS, jobId: deliveryJobId(job) },
        }));
        const sending = answered(addJobs(queueOf('delivery'), entries));
        adding.add(sending);
        await sending.finally(() => adding.delete(sending));
      },
      async consume(handler, consumeOptions) {
        const work: Processor = (job, _token, signal) => processDelivery(transport.log, job, signal, handler);
        const consumer = await startConsumer(transport, 'delivery', work, consumeOptions);
        consumers.add(consumer);
        return consumer;
      },
    },
    isPaused: (kind) => answered(queueOf(kind).isPaused()),
    async counts() {
      const count = (kind: JobKind): Promise<JobCounts> => answered(countJobs(queueOf(kind)));
      const [step, compaction, prune, delivery] = await Promise.all([
        count('step'),
        count('compaction'),
        count('prune'),
        count('delivery'),
      ]);
      return { step, compaction, prune, delivery };
    },
    async countFailed(olderThanMs) {
      const failedBefore = Date.now() - olderThanMs;
      const kept = await Promise.all([...queues.values()].map((queue) => answered(queue.getFailed(0, MAX_FAILED))));
      return kept.flat().filter(({ finishedOn }) => finishedOn !== undefined && finishedOn <= failedBefore).length;
    },
    async removeFailed(olderThanMs) {
      const each = [...queues.values()].map((queue) => answered(queue.clean(olderThanMs, MAX_FAILED, 'failed')));
      return (await Promise.all(each)).flat().length;
    },
    bullQueues: () => [...queues.values()],
    async probe() {
      await answered(probeQueue(queueOf('step'), transport.prefix.prefix));
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([...consumers].map((consumer) => consumer[Symbol.asyncDispose]()));
      // An ended pool never answers calls that still wait for a connection.
      await Promise.allSettled(adding);
      await Promise.all(opened.map((queue) => queue[Symbol.asyncDispose]()));
    },
  };
}

type Entry = Readonly<{ name: string; data: unknown; opts: JobsOptions }>;

/** Over Postgres, BullMQ makes two tables for each `addBulk`: one job alone costs a tenth of that. */
async function addJobs(queue: Queue, entries: readonly Entry[]): Promise<void> {
  const [first, ...others] = entries;
  if (first !== undefined && others.length === 0) await queue.add(first.name, first.data, first.opts);
  else await queue.addBulk([...entries]);
}

/** The span belongs to the active trace. The reconciler has none. */
function inSendSpan<T>(kind: PendingKind, send: () => Promise<T>): Promise<T> {
  if (currentTraceparent() === null) return send();
  const destination = QUEUE_NAMES[kind];
  const attributes = {
    'messaging.system': 'bullmq',
    'messaging.operation.type': 'send',
    'messaging.destination.name': destination,
  };
  return inSpan(`send ${destination}`, { kind: SpanKind.PRODUCER, attributes }, send);
}

/** Bounds a call: BullMQ waits for its first connection without limit. @throws BatonError `store_unavailable` */
async function answered<T>(call: Promise<T>): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    reject(new BatonError('store_unavailable', `the job queue did not answer within ${ANSWER_WITHIN_MS} ms`));
  }, ANSWER_WITHIN_MS);
  try {
    return await Promise.race([call, late]);
  } catch (error) {
    if (!isRedisAway(error)) throw error;
    throw new BatonError('store_unavailable', 'the job queue cannot be reached', { cause: error });
  } finally {
    clearTimeout(timer);
  }
}

/** Whether ioredis has given up a command, or lost its connection. */
function isRedisAway(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return error.name === 'MaxRetriesPerRequestError' || error.message === 'Connection is closed.';
}

type OpenQueue = AsyncDisposable & Readonly<{ kind: JobKind; queue: Queue }>;

function openQueue<Connection>(transport: Transport<Connection>, kind: JobKind): OpenQueue {
  const opened = transport.queueConnection();
  const options = { connection: opened.connection, ...transport.prefix };
  const queue = new Queue(QUEUE_NAMES[kind], options as never, transport.factory as never) as Queue;
  queue.on('error', (error) => transport.log('warn', { event: 'queue_error', queue: kind, error: toSafeError(error) }));
  return {
    kind,
    queue,
    async [Symbol.asyncDispose]() {
      await queue.close();
      await opened[Symbol.asyncDispose]();
    },
  };
}

/** Works on a job. Undefined: the job had nothing to do, and the queue forgets it. */
type Processor = (job: Job, token: string | undefined, signal: AbortSignal) => Promise<JobReport | undefined>;

async function startConsumer<Connection>(
  transport: Transport<Connection>,
  kind: JobKind,
  work: Processor,
  { concurrency, workerId }: Parameters<JobQueues['consume']>[2],
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
      const { age, count } = KEPT_COMPLETED;
      job.opts.removeOnComplete = completed % COUNTED_EVERY === 1 ? { age, count } : { age };
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
  worker.on('error', (error) =>
    transport.log('warn', { event: 'queue_error', queue: kind, error: toSafeError(error) }),
  );
  worker.on('lockRenewalFailed', (jobIds: string[]) => {
    for (const id of jobIds) worker.cancelJob(id, 'lock-lost');
  });
  try {
    await worker.waitUntilReady();
  } catch (error) {
    // Over Postgres, BullMQ remembers the failure: a running worker would retry without a pause.
    await worker.close();
    await opened[Symbol.asyncDispose]();
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
      await worker.close();
      await opened[Symbol.asyncDispose]();
    },
  };
}

/** Returns undefined if the job had nothing to do. */
async function processJob(
  { log, addNext }: Readonly<{ log: Log; addNext: (job: JobPayload) => void }>,
  kind: PendingKind,
  job: Job,
  token: string | undefined,
  signal: AbortSignal,
  handler: JobHandler,
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

/** Over Redis the probe writes, because a Redis without free memory still answers reads. */
async function probeQueue(queue: Queue, prefix: string | undefined): Promise<void> {
  const backend: IQueueBackend = queue.getBackend();
  if (!(backend instanceof RedisQueueBackend)) return void (await queue.getWaitingCount());
  const redis = await backend.client;
  await redis.set(`${prefix}:write-probe`, '1', { PX: PROBE_KEPT_MS });
}

async function countJobs(queue: Queue): Promise<JobCounts> {
  const { waiting = 0, delayed = 0, active = 0, failed = 0 } = await queue.getJobCounts(...JOB_COUNT_STATES);
  return { waiting, delayed, active, failed };
}

function toJobState(state: string): JobState {
  if (state === 'active') return 'active';
  return ['waiting', 'delayed', 'prioritized', 'waiting-children'].includes(state) ? 'waiting' : 'missing';
}
