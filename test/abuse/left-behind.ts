import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { rawId } from '../faults/check/snapshot.ts';

// The judge reads the product's tables with SQL of its own, and shares no code with the product.

/** Everything that the API has accepted, by the API's ids. */
export type Accepted = Readonly<{
  sessions: readonly string[];
  messages: readonly Readonly<{ messageId: string; runId: string; token: string }>[];
}>;

/** Accepted sessions and messages that are missing, and runs that have not ended. */
export type LeftBehind = Readonly<{ lost: string[]; stuck: string[] }>;

const ENDED = ['completed', 'cancelled', 'failed', 'incomplete'];
const LOOK_EVERY_MS = 250;

/** Every token in a user's transcript or queue, found in one pass over the texts. */
const TOKENS = `
  select distinct token[1] as token from (
    select regexp_matches(p.content ->> 'text', 'token ([0-9a-f-]{36})', 'g') as token
    from parts p join messages m on m.session_id = p.session_id and m.id = p.message_id where m.role = 'user' and p.content ->> 'text' is not null
    union all
    select regexp_matches(content::text, 'token ([0-9a-f-]{36})', 'g') from inbox where consumed_message_seq is null
  ) found`;

/**
 * Checks everything that was accepted: each session exists, each message is in a transcript or queued, each run ends
 * within the given time. The promised run of a queued message need not exist yet.
 */
export async function findLeftBehind(
  databaseUrl: () => Promise<string>,
  { sessions, messages }: Accepted,
  withinMs: number,
  signal: AbortSignal,
): Promise<LeftBehind> {
  let client: pg.Client | null = null;
  try {
    client = new pg.Client({ connectionString: await databaseUrl(), statement_timeout: 60_000 });
    client.on('error', () => undefined);
    await client.connect();
    const runIds = [...new Set(messages.map(({ runId }) => rawId(runId)))];
    const stuck = await untilEnded(client, runIds, withinMs, signal);
    const missing = await client.query<{ id: string }>(
      'select id::text from unnest($1::uuid[]) as asked(id) where not exists (select from sessions where sessions.id = asked.id)',
      [sessions.map(rawId)],
    );
    const { rows } = await client.query<{ token: string }>(TOKENS);
    const found = new Set(rows.map(({ token }) => token));
    return {
      lost: [
        ...missing.rows.map(({ id }) => `session ${id}`),
        ...messages.flatMap(({ messageId, token }) => (found.has(token) ? [] : [`message ${messageId}`])),
      ],
      stuck,
    };
  } catch (error) {
    signal.throwIfAborted();
    return { lost: [`the database cannot be read: ${error instanceof Error ? error.message : error}`], stuck: [] };
  } finally {
    await client?.end();
  }
}

async function untilEnded(
  client: pg.Client,
  runIds: readonly string[],
  withinMs: number,
  signal: AbortSignal,
): Promise<string[]> {
  for (const sinceMs = performance.now(); ; await delay(LOOK_EVERY_MS, undefined, { signal })) {
    const { rows } = await client.query<{ id: string; status: string }>(
      'select id::text, status from runs where id = any($1::uuid[]) and status <> all($2)',
      [runIds, ENDED],
    );
    if (rows.length === 0) return [];
    if (performance.now() - sinceMs > withinMs) return rows.map(({ id, status }) => `run ${id}: ${status}`);
  }
}
