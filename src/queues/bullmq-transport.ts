import {
  type BackendFactory,
  type ConnectionOptions,
  createPostgresBackend,
  type IQueueBackend,
  type PgPool,
  type PostgresQueueBackend,
} from 'bullmq';
import type { Log } from '../platform/log.ts';
import { keptConnection } from '../platform/redis-connection.ts';
import type { RedisServer } from '../platform/redis-server.ts';
import type { Store, WorkWatch } from '../platform/work-watch.ts';
import type { JobQueues } from './job-queue.ts';
import { queueSchemaOf } from './migrate.ts';
import { openQueuePool } from './queue-pool.ts';

export type QueueOptions = Readonly<
  { log: Log; watch?: WorkWatch } & (
    | (RedisServer & { backend: 'redis'; prefix: string })
    | { backend: 'postgres'; connectionString: string; schema?: string | undefined; maxConnections?: number }
  )
>;

/** A call without an answer for this long is given up. The reconciler adds the job later. */
export const ANSWER_WITHIN_MS = 5_000;

/** Postgres connections of all queues and workers of a process for their queries. */
export const QUEUE_POOL_CONNECTIONS = 4;

/** The connections and options by which BullMQ's queues and workers reach one backend. */
export type Transport<Connection> = AsyncDisposable &
  Readonly<{
    backend: JobQueues['backend'];
    log: Log;
    watch: WorkWatch | undefined;
    factory: BackendFactory<IQueueBackend, Connection> | undefined;
    prefix: { prefix?: string };
    queueConnection: () => Connection;
    workerConnection: () => Opened<Connection>;
  }>;

export const storeOf = (backend: JobQueues['backend']): Store => (backend === 'redis' ? 'queue' : 'postgres');

/** Disposed when its worker is closed. */
type Opened<Connection> = Disposable & Readonly<{ connection: Connection }>;

/** A worker waits up to 10 s for a job in one request. */
const WORKER_SILENT_FOR_MS = 15_000;

/**
 * A connection of ioredis for each queue and worker. BullMQ closes those that it opens from options. A queue asks for no
 * version: BullMQ keeps a failure of that first request for good, and the queue would never add a job again. The start
 * of the process has checked the version.
 */
export function redisTransport(options: Extract<QueueOptions, { backend: 'redis' }>): Transport<ConnectionOptions> {
  const { url, via } = options;
  return {
    backend: 'redis',
    log: options.log,
    watch: options.watch,
    factory: undefined,
    prefix: { prefix: options.prefix },
    queueConnection: () => ({
      url,
      ...via,
      ...keptConnection(ANSWER_WITHIN_MS),
      maxRetriesPerRequest: 1,
      enableOfflineQueue: true,
      commandTimeout: ANSWER_WITHIN_MS,
      skipVersionCheck: true,
    }),
    workerConnection: () => ({
      connection: { url, ...via, ...keptConnection(WORKER_SILENT_FOR_MS), maxRetriesPerRequest: null },
      [Symbol.dispose]: () => undefined,
    }),
    [Symbol.asyncDispose]: async () => undefined,
  };
}

/** One pool for all queues and workers. */
export function postgresTransport(options: Extract<QueueOptions, { backend: 'postgres' }>): Transport<PgPool> {
  const { connectionString, log, watch, maxConnections = QUEUE_POOL_CONNECTIONS } = options;
  const schema = queueSchemaOf(options.schema);
  const pool = openQueuePool({ connectionString, schema, maxConnections, answerWithinMs: ANSWER_WITHIN_MS });
  return {
    backend: 'postgres',
    log,
    watch,
    factory: backendIn(schema),
    prefix: {},
    queueConnection: () => pool,
    workerConnection: () => ({ connection: pool, ...pool.addListener() }),
    [Symbol.asyncDispose]: () => pool[Symbol.asyncDispose](),
  };
}

/** BullMQ finds its tables by the path of the pool, but asks for their version in its own schema, whichever that is. */
function backendIn(schema: string): BackendFactory<IQueueBackend, PgPool> {
  const create = createPostgresBackend as BackendFactory<PostgresQueueBackend, PgPool>;
  return (...args) => {
    const backend = create(...args);
    Object.assign(backend.connection, { schema });
    return backend;
  };
}
