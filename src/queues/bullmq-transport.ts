import {
  type BackendFactory,
  type ConnectionOptions,
  createPostgresBackend,
  type IQueueBackend,
  type PgPool,
} from 'bullmq';
import type { Log } from '../platform/log.ts';
import type { JobQueues } from './job-queue.ts';
import { queueSchemaOf } from './migrate.ts';
import { openQueuePool } from './queue-pool.ts';

export type QueueOptions = Readonly<
  { log: Log } & (
    | { backend: 'redis'; url: string; prefix: string }
    | { backend: 'postgres'; connectionString: string; schema?: string | undefined; maxConnections?: number }
  )
>;

/** A call without an answer for this long is given up. The reconciler adds the job later. */
export const ANSWER_WITHIN_MS = 5_000;

/** Postgres connections of each queue, and of each worker for its queries. */
export const QUEUE_POOL_CONNECTIONS = 4;

/** The connections and options by which BullMQ's queues and workers reach one backend. */
export type Transport<Connection> = Readonly<{
  backend: JobQueues['backend'];
  log: Log;
  factory: BackendFactory<IQueueBackend, Connection> | undefined;
  prefix: { prefix?: string };
  queueConnection: () => Opened<Connection>;
  workerConnection: () => Opened<Connection>;
}>;

/** Disposed when its queue or worker is closed. */
type Opened<Connection> = AsyncDisposable & Readonly<{ connection: Connection }>;

/** A connection of ioredis for each queue and worker. */
export function redisTransport(options: Extract<QueueOptions, { backend: 'redis' }>): Transport<ConnectionOptions> {
  const { url } = options;
  // BullMQ itself closes connections that it opens from options.
  const opened = (connection: ConnectionOptions) => () => ({
    connection,
    [Symbol.asyncDispose]: async () => undefined,
  });
  return {
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
  };
}

/** A pool of its own for each queue and worker. */
export function postgresTransport(options: Extract<QueueOptions, { backend: 'postgres' }>): Transport<PgPool> {
  const { connectionString, log, maxConnections = QUEUE_POOL_CONNECTIONS } = options;
  const schema = queueSchemaOf(options.schema);
  const opened = (max: number) => () => {
    const pool = { connectionString, schema, maxConnections: max, answerWithinMs: ANSWER_WITHIN_MS };
    const connection = openQueuePool(pool);
    return { connection, [Symbol.asyncDispose]: () => connection[Symbol.asyncDispose]() };
  };
  return {
    backend: 'postgres',
    log,
    factory: createPostgresBackend as BackendFactory<IQueueBackend, PgPool>,
    prefix: {},
    queueConnection: opened(maxConnections),
    // One more, for LISTEN.
    workerConnection: opened(maxConnections + 1),
  };
}
