import type { ModelMessage } from 'ai';
import type pg from 'pg';
import { askModel } from '../chain/step.ts';

/** Text is durable within 250 ms of its arrival: this long it is collected, the rest is for the write itself. */
const COLLECT_MS = 200;

/**
 * The model call of a step, whose text is written while it streams: what has come together every 200 ms, and the rest
 * at the end of the answer. An answer that comes at once is one write.
 * @param write makes a piece of text durable; pieces are written one after the other
 * @returns the assistant's message, once all text is written
 */
export async function askModelDurably(
  history: readonly ModelMessage[],
  write: (text: string) => Promise<unknown>,
): Promise<ModelMessage[]> {
  let collected = '';
  let written: Promise<unknown> = Promise.resolve();
  const flush = (): void => {
    const text = collected;
    collected = '';
    if (text !== '') written = written.then(() => write(text));
  };
  const timer = setInterval(flush, COLLECT_MS);
  try {
    const response = await askModel(history, (text) => {
      collected += text;
    });
    flush();
    await written;
    return response;
  } finally {
    clearInterval(timer);
  }
}

/** A table for the text of peers without a durable stream. A reader resumes after the id that it has seen last. */
export const TEXT_TABLE = `create table texts (
  id bigint generated always as identity primary key, session text not null, body text not null
)`;

/** Appends a piece of a session's text. */
export async function writeText(pool: pg.Pool, session: string, text: string): Promise<void> {
  await pool.query({
    name: 'text',
    text: 'insert into texts (session, body) values ($1, $2)',
    values: [session, text],
  });
}

/** Pieces of text of the sessions with this prefix. */
export async function countTexts(pool: pg.Pool, prefix: string): Promise<number> {
  const { rows } = await pool.query<{ count: number }>(
    'select count(*)::int as count from texts where session like $1',
    [`${prefix}%`],
  );
  return rows[0]?.count ?? 0;
}
