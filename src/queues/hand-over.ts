import { type IQueueBackend, Job, type JobJson, PostgresQueueBackend, RedisQueueBackend, type Worker } from 'bullmq';
import type { JobPayload } from '../domain/run/job.ts';
import type { Entry } from './late-jobs.ts';

export type NextJobs = Readonly<{
  /** The job that follows the one with this id, once. */
  nextOf: (jobId: string) => JobPayload | undefined;
  entryOf: (next: JobPayload) => Entry;
  /** Adds it where the queue refuses the transaction, or the worker takes no more jobs. */
  addNext: (next: JobPayload) => void;
}>;

/**
 * Lets a worker take the job that follows one of its own. The queue ends the one, adds the other in front of all that
 * wait, and gives it to this worker in one transaction. Between three requests another worker would be faster: it waits
 * for jobs, and has nothing to do for this one.
 */
export function handOverNext(worker: Worker, { nextOf, entryOf, addNext }: NextJobs): void {
  const backend: IQueueBackend = worker.getBackend();
  const { moveToCompleted: end } = backend;
  backend.moveToCompleted = async (...ending) => {
    const [job, , , , takesNext] = ending;
    const next = nextOf(job.id ?? '');
    if (next !== undefined && takesNext) {
      const { name, data, opts } = entryOf(next);
      const json = new Job(worker, name, data, opts, opts.jobId).asJSON();
      const adding = await addingTo(backend, json, opts.jobId);
      const ended = adding && (await end.apply(adding, ending).catch(() => null));
      if (ended !== null) return ended;
    }
    // After a refusal, too: it may have been of the added job alone. A job that has ended already is refused again.
    if (next !== undefined) addNext(next);
    return end.apply(backend, ending);
  };
}

/** The backend, whose end of a job adds this other one. Null for a kind of backend that is not known here. */
async function addingTo(backend: IQueueBackend, json: JobJson, jobId: string): Promise<IQueueBackend | null> {
  if (backend instanceof RedisQueueBackend) return addingToRedis(backend, json, jobId);
  return backend instanceof PostgresQueueBackend ? addingToPostgres(backend, json, jobId) : null;
}

/** Both scripts of BullMQ run in one transaction. */
function addingToRedis(backend: RedisQueueBackend, json: JobJson, jobId: string): IQueueBackend {
  const execCommand: RedisQueueBackend['execCommand'] = async (client, command, args) => {
    if (!('multi' in client)) throw new Error('a transaction is under way');
    const transaction = client.multi();
    await backend.addJobToTransaction(transaction, json, jobId);
    backend.execCommand(transaction, command, args);
    for (const [error, reply] of (await transaction.exec())?.slice(1) ?? []) {
      if (error !== null) throw error;
      return reply;
    }
    throw new Error('the transaction was dropped');
  };
  return Object.create(backend, { execCommand: { value: execCommand } });
}

type Query = (text: string, values: readonly unknown[]) => Promise<unknown>;

/** The first thirteen parameters are those of BullMQ's own statement, the others those of its `add_job`. */
const ADD_AND_END = `
  with added as materialized (
    select add_job(
      $14, $15, $16, $17::jsonb, $18::jsonb, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28
    ) as id
  )
  -- What is read of the added job keeps the order.
  select ended.* from added, move_to_completed_fetch(
    $1, $2 || left(added.id, 0), $3, $4::jsonb, $5, $6, $7, $8, $9, $10, $11, $12, $13
  ) as ended`;

/** Both functions of BullMQ run in one statement. */
async function addingToPostgres(backend: PostgresQueueBackend, json: JobJson, jobId: string): Promise<IQueueBackend> {
  const ask: Query = Reflect.get(backend, 'query').bind(backend);
  let values: readonly unknown[] = [];
  const note = async (_statement: string, sqlValues: readonly unknown[]) => {
    values = sqlValues;
    return { rows: [{ id: jobId }] };
  };
  const noting: IQueueBackend = Object.create(backend, { run: { value: note } });
  await noting.addJob(json, jobId);
  const query: Query = (text, own) =>
    text.includes('move_to_completed_fetch(') ? ask(ADD_AND_END, [...own, ...values]) : ask(text, own);
  return Object.create(backend, { query: { value: query } });
}
