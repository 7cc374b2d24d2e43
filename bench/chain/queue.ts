import { createPostgresBackend, Queue, type QueueOptions, Worker, type WorkerOptions } from 'bullmq';
import { QUEUE_SCHEMA } from '../../src/queues/migrate.ts';

/** `loop`: `streamText`, as programs ask a model. `single`: the one call in it, without the loop that runs tools. */
export type FloorCall = 'loop' | 'single';

/** A job of the floor: one step of one session. */
export type FloorJob = Readonly<{ id: string; step: number; steps: number; call: FloorCall }>;

const FLOOR_QUEUE = 'floor';

/** The BullMQ backend of a floor, from the environment that its processes share. */
function transport(environment: Readonly<Record<string, string | undefined>>): [options: unknown, factory?: unknown] {
  const { REDIS_URL, DATABASE_URL, BATON_QUEUE_PREFIX } = environment;
  if (REDIS_URL !== undefined) {
    return [{ connection: { url: REDIS_URL, maxRetriesPerRequest: null }, prefix: BATON_QUEUE_PREFIX }];
  }
  return [{ connection: { connectionString: DATABASE_URL, schema: QUEUE_SCHEMA, max: 4 } }, createPostgresBackend];
}

export function openFloorQueue(environment: Readonly<Record<string, string | undefined>>): Queue<FloorJob> {
  const [options, factory] = transport(environment);
  return new Queue(FLOOR_QUEUE, options as QueueOptions, factory as never) as Queue<FloorJob>;
}

export function openFloorWorker(
  environment: Readonly<Record<string, string | undefined>>,
  work: (job: FloorJob) => Promise<void>,
  concurrency: number,
): Worker<FloorJob> {
  const [options, factory] = transport(environment);
  const settings = { ...(options as object), concurrency } as WorkerOptions;
  return new Worker<FloorJob>(FLOOR_QUEUE, async (job) => work(job.data), settings, factory as never);
}
