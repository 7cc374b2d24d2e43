import type { ModelMessage } from 'ai';
import type pg from 'pg';
import { firstMessage } from '../chain/step.ts';

/** A table for the results of steps: a job queue keeps none. */
export const STEP_TABLE = `create table steps (
  session text not null, no int not null, messages jsonb not null, primary key (session, no)
)`;

/** A job: one step of one session. */
export type StepJob = Readonly<{ session: string; no: number; steps: number }>;

export async function loadHistory(pool: pg.Pool, { session, steps }: StepJob): Promise<ModelMessage[]> {
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
  /** Does the work of a job; an error of it is everybody's: a queue would only try again. */
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
