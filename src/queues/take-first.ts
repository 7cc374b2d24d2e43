import { type IQueueBackend, Job, type JobJson, PostgresQueueBackend, RedisQueueBackend, type Worker } from 'bullmq';

/** Makes a job that waits the first one of its queue, and takes the first one, in one transaction of the queue. */
export type TakeFirst = (jobId: string, token: string) => Promise<Job | null>;

/**
 * Lets a worker take a job that waits, past all others. Between two requests another worker could take it, and this one
 * the job behind it. If another worker was faster even so, this one has that job all the same.
 * @returns null: none is given, as in a paused queue
 */
export function takesFirst(worker: Worker): TakeFirst {
  const backend: IQueueBackend = worker.getBackend();
  // Of the class: a worker's own request is repeated until it succeeds.
  const { moveToActive: take } = backend;
  return async (jobId, token) => {
    const fronting = await frontedIn(backend, jobId);
    const [taken, takenId]: [JobJson?, string?] = (await take.call(fronting, token, worker.opts.name)) as never;
    if (!taken) return null;
    const job = Job.fromJSON(worker, taken, takenId);
    job.token = token;
    return job;
  };
}

/** The backend, whose request for work makes this job the first one before. Another kind of backend stays as it is. */
async function frontedIn(backend: IQueueBackend, jobId: string): Promise<IQueueBackend> {
  if (backend instanceof RedisQueueBackend) return frontedInRedis(backend, jobId);
  return backend instanceof PostgresQueueBackend ? frontedInPostgres(backend, jobId) : backend;
}

type Args = Parameters<RedisQueueBackend['execCommand']>[2];

/** Both scripts of BullMQ run in one transaction. */
async function frontedInRedis(backend: RedisQueueBackend, jobId: string): Promise<IQueueBackend> {
  let first: Args = [];
  const note = (_client: unknown, _command: string, args: Args): number => {
    first = args;
    return 0;
  };
  const noting: IQueueBackend = Object.create(backend, { execCommand: { value: note } });
  await noting.changePriority(jobId, 0, true);
  const execCommand: RedisQueueBackend['execCommand'] = async (client, command, args) => {
    if (!('multi' in client)) throw new Error('a transaction is under way');
    const transaction = client.multi();
    backend.execCommand(transaction, 'changePriority', first);
    backend.execCommand(transaction, command, args);
    const [, taken] = (await transaction.exec()) ?? [];
    if (taken === undefined) throw new Error('the transaction was dropped');
    const [error, reply] = taken;
    if (error !== null) throw error;
    return reply;
  };
  return Object.create(backend, { execCommand: { value: execCommand } });
}

type Query = (text: string, values: readonly unknown[]) => Promise<unknown>;

/** The first seven parameters are those of BullMQ's own statement, the others those of its `change_priority`. */
const FRONT_AND_TAKE = `
  with fronted as materialized (select change_priority($8, $9, $10, $11) as code)
  -- What is read of it keeps the order.
  select taken.* from fronted, move_to_active($1, $2 || left(code::text, 0), $3, $4, $5, $6, $7) as taken`;

/** Both functions of BullMQ run in one statement. */
async function frontedInPostgres(backend: PostgresQueueBackend, jobId: string): Promise<IQueueBackend> {
  const ask: Query = Reflect.get(backend, 'query').bind(backend);
  let values: readonly unknown[] = [];
  const note = async (_statement: string, sqlValues: readonly unknown[]) => {
    values = sqlValues;
    return { rows: [{ code: 0 }] };
  };
  const noting: IQueueBackend = Object.create(backend, { run: { value: note } });
  await noting.changePriority(jobId, 0, true);
  const query: Query = (text, own) =>
    text.includes('move_to_active(') ? ask(FRONT_AND_TAKE, [...own, ...values]) : ask(text, own);
  return Object.create(backend, { query: { value: query } });
}
