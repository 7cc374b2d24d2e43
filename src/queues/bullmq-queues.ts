import { SpanKind } from '@opentelemetry/api';
import { type IQueueBackend, type JobsOptions, type JobType, Queue, RedisQueueBackend } from 'bullmq';
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
import { PENDING_KINDS, type PendingKind } from '../domain/run/run.ts';
import { type DeliveryJob, deliveryJobId, toQueuedDelivery } from '../domain/webhooks/delivery-job.ts';
import { toSafeError } from '../platform/log.ts';
import { isRedisAway } from '../platform/redis-connection.ts';
import { currentTraceparent, inSpan } from '../platform/tracing.ts';
import { MAX_FAILED, startDeliveryConsumer, startRunConsumer } from './bullmq-consumer.ts';
import {
  ANSWER_WITHIN_MS,
  postgresTransport,
  type QueueOptions,
  redisTransport,
  storeOf,
  type Transport,
} from './bullmq-transport.ts';
import {
  type AddOptions,
  JOB_COUNT_STATES,
  type JobConsumer,
  type JobCounts,
  type JobQueues,
  type JobState,
} from './job-queue.ts';
import { addLater, type Entry } from './late-jobs.ts';

/**
 * The queue delivers a job once; the run decides about retries. A job with nothing to do is removed, because BullMQ
 * ignores a new job with a known id and the run may need this one again.
 */
const JOB_OPTIONS = { attempts: 1, removeOnComplete: true, removeOnFail: true } satisfies JobsOptions;

/** Time to live of the probe's key in Redis. */
const PROBE_KEPT_MS = 60_000;

export function createJobQueues(options: QueueOptions): JobQueues {
  return options.backend === 'redis' ? openQueues(redisTransport(options)) : openQueues(postgresTransport(options));
}

function openQueues<Connection>(transport: Transport<Connection>): JobQueues {
  const queues = openAll(transport);
  const sender = createSender(transport, queues);
  const consumers = new Set<JobConsumer>();
  const add: JobQueues['add'] = async (jobs, options = {}) => {
    for (const [kind, ofKind] of Map.groupBy(jobs, (job) => job.kind)) {
      const entries = ofKind.map((job) => entryOf(job, options));
      await inSendSpan(kind, () => sender.send(kind, entries));
    }
  };
  const next = {
    entryOf: (job: JobPayload): Entry => entryOf(job, { isFirst: true }),
    addNext: (job: JobPayload): void => {
      add([job], { isFirst: true }).catch((error: unknown) => {
        transport.log('warn', { event: 'jobs_not_enqueued', runIds: [job.runId], error: toSafeError(error) });
      });
    },
  };
  const kept = <Kind extends JobConsumer>(consumer: Kind): Kind => {
    consumers.add(consumer);
    return consumer;
  };
  return {
    ...inspect(queues, transport.prefix.prefix),
    backend: transport.backend,
    add,
    consume: async (kind, handler, options) =>
      kept(await startRunConsumer(transport, kind, { handler, ...next }, options)),
    deliveries: {
      add: (jobs) => sender.send('delivery', jobs.map(deliveryEntryOf)),
      consume: async (handler, options) => kept(await startDeliveryConsumer(transport, handler, options)),
    },
    async [Symbol.asyncDispose]() {
      sender[Symbol.dispose]();
      await Promise.all([...consumers].map((consumer) => consumer[Symbol.asyncDispose]()));
      // An ended pool never answers calls that still wait for a connection.
      await sender.settled();
      await Promise.all(queues.all.map((queue) => queue.close()));
      await transport[Symbol.asyncDispose]();
    },
  };
}

/** BullMQ's queues of all kinds of jobs. */
type Queues = Readonly<{
  all: readonly Queue[];
  of: (kind: JobKind) => Queue;
  /** Bounds a call. @throws BatonError `store_unavailable` with the cause */
  answered: <T>(call: Promise<T>) => Promise<T>;
}>;

function openAll<Connection>(transport: Transport<Connection>): Queues {
  let lastError: unknown;
  const queues = new Map(
    JOB_KINDS.map((kind) => {
      const queue = openQueue(transport, kind);
      queue.on('error', (error) => {
        lastError = error;
        transport.log('warn', { event: 'queue_error', queue: kind, error: toSafeError(error) });
      });
      return [kind, queue];
    }),
  );
  return {
    all: [...queues.values()],
    of(kind) {
      const queue = queues.get(kind);
      if (queue === undefined) throw new Error(`no queue for ${kind}`);
      return queue;
    },
    answered: (call) => boundAnswer(call, () => lastError),
  };
}

type Sender = Disposable &
  Readonly<{
    /** Rejects if the queue refuses. Then it is sent again later, until the sender is disposed. */
    send: (kind: JobKind, entries: readonly Entry[]) => Promise<void>;
    /** Resolves when no call is under way. */
    settled: () => Promise<unknown>;
  }>;

function createSender<Connection>({ watch, backend }: Transport<Connection>, queues: Queues): Sender {
  const sending = new Set<Promise<unknown>>();
  const reports = new Map(
    JOB_KINDS.map((kind) => [kind, watch?.of(`add jobs to ${QUEUE_NAMES[kind]}`, storeOf(backend))]),
  );
  const sendOnce = async (kind: JobKind, entries: readonly Entry[]): Promise<void> => {
    const call = queues.answered(addJobs(queues.of(kind), entries));
    sending.add(call);
    const report = reports.get(kind);
    try {
      await call;
      report?.succeeded();
    } catch (error) {
      report?.failed(error);
      throw error;
    } finally {
      sending.delete(call);
    }
  };
  const late = addLater(sendOnce);
  return {
    async send(kind, entries) {
      try {
        await sendOnce(kind, entries);
      } catch (error) {
        late.add(kind, entries);
        throw error;
      }
    },
    settled: () => Promise.allSettled(sending),
    [Symbol.dispose]: () => late[Symbol.dispose](),
  };
}

type Inspection = Pick<
  JobQueues,
  | 'stateOf'
  | 'hasten'
  | 'takerOf'
  | 'takenBy'
  | 'isPaused'
  | 'counts'
  | 'countFailed'
  | 'removeFailed'
  | 'bullQueues'
  | 'probe'
>;

function inspect({ all, of, answered }: Queues, prefix: string | undefined): Inspection {
  return {
    stateOf: async (job) => toJobState(await answered(of(job.kind).getJobState(jobIdOf(job)))),
    async hasten(job) {
      const queued = await answered(of(job.kind).getJob(jobIdOf(job)));
      // It may have become due meanwhile.
      if (queued !== undefined) await answered(queued.promote().catch(() => undefined));
    },
    takerOf: async (job) => (await answered(of(job.kind).getJob(jobIdOf(job))))?.processedBy ?? null,
    async takenBy(workerId) {
      const active = await Promise.all(PENDING_KINDS.map((kind) => answered(of(kind).getActive())));
      // A job that has ended since the list was read has no data.
      return active.flat().flatMap((job) => {
        const payload = queuedJobSchema.safeParse(job?.data);
        return payload.success && job.processedBy === workerId ? [payload.data] : [];
      });
    },
    isPaused: (kind) => answered(of(kind).isPaused()),
    async counts() {
      const count = (kind: JobKind): Promise<JobCounts> => answered(countJobs(of(kind)));
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
      const kept = await Promise.all(all.map((queue) => answered(queue.getFailed(0, MAX_FAILED))));
      return kept.flat().filter(({ finishedOn }) => finishedOn !== undefined && finishedOn <= failedBefore).length;
    },
    async removeFailed(olderThanMs) {
      const each = all.map((queue) => answered(queue.clean(olderThanMs, MAX_FAILED, 'failed')));
      return (await Promise.all(each)).flat().length;
    },
    bullQueues: () => all,
    async probe() {
      await Promise.all(all.map((queue) => answered(probeQueue(queue, prefix))));
    },
  };
}

function entryOf(job: JobPayload, { delayMs, isFirst = false }: AddOptions): Entry {
  const place = { ...(delayMs !== undefined && { delay: delayMs }), ...(isFirst && { lifo: true }) };
  return { name: job.kind, data: toQueuedJob(job), opts: { ...JOB_OPTIONS, ...place, jobId: jobIdOf(job) } };
}

function deliveryEntryOf(job: DeliveryJob): Entry {
  return { name: 'delivery', data: toQueuedDelivery(job), opts: { ...JOB_OPTIONS, jobId: deliveryJobId(job) } };
}

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

/**
 * Bounds a call: BullMQ waits for its first connection without limit.
 * @param lastError the latest error of the queues' connections: ioredis does not say why it has given up a command
 * @throws BatonError `store_unavailable` with the cause
 */
async function boundAnswer<T>(call: Promise<T>, lastError: () => unknown): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    reject(new BatonError('store_unavailable', `the job queue did not answer within ${ANSWER_WITHIN_MS} ms`));
  }, ANSWER_WITHIN_MS);
  try {
    return await Promise.race([call, late]);
  } catch (error) {
    if (!isRedisAway(error)) throw error;
    const cause = isReply(error) ? error : (lastError() ?? error);
    throw new BatonError('store_unavailable', `the job queue cannot be reached: ${wordsOf(cause)}`, { cause });
  } finally {
    clearTimeout(timer);
  }
}

/** Whether a Redis itself has sent this error. */
const isReply = (error: unknown): boolean => error instanceof Error && error.name === 'ReplyError';
const wordsOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

function openQueue<Connection>(transport: Transport<Connection>, kind: JobKind): Queue {
  const options = { connection: transport.queueConnection(), ...transport.prefix };
  return new Queue(QUEUE_NAMES[kind], options as never, transport.factory as never) as Queue;
}

/** Over Redis the probe writes, because a Redis without free memory still answers reads. */
async function probeQueue(queue: Queue, prefix: string | undefined): Promise<void> {
  const backend: IQueueBackend = queue.getBackend();
  if (!(backend instanceof RedisQueueBackend)) return void (await queue.getWaitingCount());
  const redis = await backend.client;
  await redis.set(`${prefix}:write-probe`, '1', { PX: PROBE_KEPT_MS });
}

async function countJobs(queue: Queue): Promise<JobCounts> {
  // Over Postgres, what waits in a paused queue is counted as paused, which the types of BullMQ leave out.
  const counts = await queue.getJobCounts(...([...JOB_COUNT_STATES, 'paused'] as JobType[]));
  const { waiting = 0, paused = 0, delayed = 0, active = 0, failed = 0 } = counts;
  return { waiting: waiting + paused, delayed, active, failed };
}

function toJobState(state: string): JobState {
  if (state === 'active' || state === 'delayed') return state;
  if (state === 'completed' || state === 'failed') return 'ended';
  return ['waiting', 'prioritized', 'waiting-children'].includes(state) ? 'waiting' : 'missing';
}
