import type { ModelMessage } from 'ai';
import type pg from 'pg';
import { callTools, firstMessage, hasCalls, runModelStep } from '../chain/step.ts';
import type { Guarantees } from './contest.ts';
import { askModelDurably, TEXT_TABLE, writeText } from './durable-text.ts';

/** Tables for the results of jobs and for texts, because a job queue keeps neither. */
export const STEP_TABLES = `create table steps (
  session text not null, no int not null, messages jsonb not null, primary key (session, no)
); ${TEXT_TABLE}`;

/**
 * A job: one step of one session. At equal guarantees: a model call (odd `no`) or the tool calls of a step (even `no`).
 */
export type StepJob = Readonly<{ session: string; no: number; steps: number }>;

/** The messages of a job, and whether another job follows. */
export type JobResult = Readonly<{ messages: readonly ModelMessage[]; goesOn: boolean }>;

/** Does the work of a job but for its result, which the queue stores together with the next job. */
export async function doJob(pool: pg.Pool, guarantees: Guarantees, job: StepJob): Promise<JobResult> {
  const history = await loadHistory(pool, job);
  if (guarantees === 'own') return { messages: await runModelStep(history), goesOn: job.no < job.steps };
  if (job.no % 2 === 0) return { messages: await callTools(history.slice(-1)), goesOn: true };
  const messages = await askModelDurably(history, (text) => writeText(pool, job.session, text));
  return { messages, goesOn: hasCalls(messages) };
}

async function loadHistory(pool: pg.Pool, { session, steps }: StepJob): Promise<ModelMessage[]> {
  const { rows } = await pool.query<{ messages: ModelMessage[] }>({
    name: 'load',
    text: 'select messages from steps where session = $1 order by no',
    values: [session],
  });
  return [firstMessage(steps), ...rows.flatMap(({ messages }) => messages)];
}

export async function countSteps(pool: pg.Pool, prefix: string): Promise<number> {
  const { rows } = await pool.query<{ count: number }>(
    'select count(*)::int as count from steps where session like $1 and jsonb_array_length(messages) > 0',
    [`${prefix}%`],
  );
  return rows[0]?.count ?? 0;
}

/** The waiters for sessions. A job tells them that its session is over or has failed. */
export type Ends = Readonly<{
  /** Does the work of a job. Its error rejects every `untilEnded`, because a queue would only try the job again. */
  working: <T>(work: () => Promise<T>) => Promise<T>;
  ended: (session: string) => void;
  untilEnded: (sessions: readonly string[]) => Promise<void>;
}>;

export function createEnds(): Ends {
  const failed = Promise.withResolvers<never>();
  failed.promise.catch(() => undefined);
  const awaited = new Map<string, () => void>();
  return {
    async working(work) {
      try {
        return await work();
      } catch (error) {
        failed.reject(error);
        throw error;
      }
    },
    ended: (session) => awaited.get(session)?.(),
    async untilEnded(sessions) {
      const all = sessions.map((session) => new Promise<void>((resolve) => awaited.set(session, resolve)));
      await Promise.race([Promise.all(all), failed.promise]);
    },
  };
}
