import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { indexWords } from '../../src/store/around/message-words.ts';
import type { Db } from '../../src/store/db/database.ts';
import { createTestKey } from '../support/keys.ts';
import { answerStep, claimJob } from './play-worker.ts';
import { startTestApi, type TestApi } from './test-api.ts';

type Hit = Readonly<{ messageId: string; role: string; text: string }>;
type Found = Readonly<{ id: string; hit: Hit | null }>;

async function find(api: TestApi, query: string, headers: Record<string, string> = {}): Promise<readonly Found[]> {
  const { status, body } = await api.call('GET', `/v1/sessions?${query}`, undefined, headers);
  expect(status, JSON.stringify(body)).toBe(200);
  return body['sessions'] as Found[];
}
const idsOf = async (api: TestApi, query: string, headers?: Record<string, string>) =>
  (await find(api, query, headers)).map(({ id }) => id);

/** A run of the session: the user says this, and the assistant answers that. */
async function say(api: TestApi, id: string, text: string, answer: string): Promise<void> {
  expect((await api.send(id, text)).status).toBe(202);
  await answerStep(api.db, await claimJob(api.db, api.added.at(-1)), answer);
}

async function indexAll(db: Db): Promise<void> {
  while (((await indexWords(db)) ?? 0) > 0);
}

const countWords = async (db: Db) => (await sql`select 1 from message_words`.execute(db)).rows.length;

test('the search finds words of a message by their beginning, and shows the text around them', async () => {
  await using api = await startTestApi();
  const [one, other] = [await api.createSession(), await api.createSession({ title: 'Müller' })];
  await say(api, one, `${'Long. '.repeat(40)}Why was MÜLLER-4711 charged?`, 'Because of the (late) fee.');
  await say(api, other, 'Hello', 'Nothing about charges.');
  expect(await find(api, 'q=4711')).toEqual([]);
  await indexAll(api.db);
  const [found] = await find(api, `q=${encodeURIComponent('charged müll')}`);
  expect(found).toMatchObject({
    id: one,
    hit: { role: 'user', text: expect.stringContaining('was MÜLLER-4711 charged?') },
  });
  expect(found?.hit?.text.length).toBeLessThan(100);
  expect(await find(api, 'q=late+FEE')).toMatchObject([{ id: one, hit: { role: 'assistant' } }]);
  expect(await find(api, 'q=müll')).toMatchObject([
    { id: other, hit: null },
    { id: one, hit: { role: 'user' } },
  ]);
  // Both words of one message; a word before the last one, and a short one, whole.
  expect(await idsOf(api, 'q=4711+fee')).toEqual([]);
  for (const part of ['4711+wa', 'charg+4711']) expect(await idsOf(api, `q=${part}`)).toEqual([]);
  expect(await idsOf(api, 'q=charg&agent=clerk')).toEqual([]);
  expect(await idsOf(api, 'q=charg&limit=1')).toEqual([other]);
});

test('words of another tenant are not found, and a service without the search of messages finds none', async () => {
  await using api = await startTestApi();
  await using without = await startTestApi({ db: api.db, messageSearch: false });
  const id = await api.createSession();
  await say(api, id, 'A secret word', 'default secret');
  await indexAll(api.db);
  expect(await idsOf(api, 'q=secret')).toEqual([id]);
  expect(await idsOf(without, 'q=secret')).toEqual([]);
  const beta = await createTestKey(api.db, 'beta');
  for (const q of ['secret', 'default+secret']) expect(await idsOf(api, `q=${q}`, beta.headers)).toEqual([]);
});

test('a message that was reverted is found no longer, and again after the undo; a deleted session leaves no words', async () => {
  await using api = await startTestApi();
  const id = await api.createSession();
  await say(api, id, 'Keep this', 'Kept.');
  await say(api, id, 'Drop the zebra', 'Dropped.');
  await indexAll(api.db);
  const zebra = await find(api, 'q=zebra');
  expect(zebra).toMatchObject([{ id, hit: { role: 'user', text: 'Drop the zebra' } }]);
  const { body } = await api.call('GET', `/v1/sessions/${id}/messages`);
  const [, kept] = body['messages'] as { id: string }[];
  expect((await api.call('POST', `/v1/sessions/${id}/revert`, { toMessage: kept?.id })).status).toBe(200);
  expect(await idsOf(api, 'q=zebra')).toEqual([]);
  expect(await idsOf(api, 'q=keep')).toEqual([id]);
  expect((await api.call('POST', `/v1/sessions/${id}/unrevert`, {})).status).toBe(200);
  expect(await idsOf(api, 'q=zebra')).toEqual([id]);
  const { body: fork } = await api.call('POST', `/v1/sessions/${id}/fork`, {});
  await indexAll(api.db);
  expect(await idsOf(api, 'q=zebra')).toEqual([fork['id'], id]);
  for (const gone of [id, fork['id']]) expect((await api.call('DELETE', `/v1/sessions/${gone}`)).status).toBe(204);
  expect(await countWords(api.db)).toBe(0);
});

test('words are indexed once, whoever is at it, and after a crash in the middle', async () => {
  await using api = await startTestApi();
  const id = await api.createSession();
  await say(api, id, 'First', 'Second');
  // The one is at work and dies; meanwhile the other one finds the place taken.
  const dying = await api.db.startTransaction().execute();
  expect(await indexWords(dying)).toBe(2);
  expect(await indexWords(api.db)).toBeNull();
  await dying.rollback().execute();
  expect(await countWords(api.db)).toBe(0);
  expect(await indexWords(api.db, 1)).toBe(1);
  await sql`update session_words set indexed_seq = 0`.execute(api.db);
  await indexAll(api.db);
  expect(await countWords(api.db)).toBe(2);
  expect((await sql`select 1 from sessions where words_due_at is not null`.execute(api.db)).rows).toEqual([]);
});

test('a session whose run goes on is due again in a minute, and at once when the run ends', async () => {
  await using api = await startTestApi();
  const id = await api.createSession();
  await api.send(id, 'A long task');
  const claimed = await claimJob(api.db, api.added.at(-1));
  const dueInMs = async () => {
    const { rows } = await sql<{ ms: number | null }>`
      select extract(epoch from words_due_at - clock_timestamp())::float8 * 1000 as ms from sessions`.execute(api.db);
    return rows[0]?.ms ?? null;
  };
  expect(await indexWords(api.db)).toBe(0);
  await sql`update sessions set words_due_at = clock_timestamp()`.execute(api.db);
  expect(await indexWords(api.db)).toBe(2);
  expect(await dueInMs()).toBeGreaterThan(30_000);
  expect(await find(api, 'q=task')).toMatchObject([{ id, hit: { role: 'user' } }]);
  await answerStep(api.db, claimed, 'An answer at last');
  expect(await dueInMs()).toBeLessThanOrEqual(0);
  await indexAll(api.db);
  expect(await find(api, 'q=last')).toMatchObject([{ id, hit: { role: 'assistant' } }]);
  expect(await dueInMs()).toBeNull();
});

test('tenants take turns: what one has waiting keeps nobody else’s words from their turn', async () => {
  await using api = await startTestApi();
  const beta = await createTestKey(api.db, 'beta');
  await sql`
    insert into sessions (id, agent_name, agent_version, agent_snapshot, words_due_at)
    select gen_random_uuid(), 'coder', '1', '{}', '2000-01-01' from generate_series(1, 300)`.execute(api.db);
  const { body } = await api.call('POST', '/v1/sessions', { agent: 'coder' }, beta.headers);
  const id = String(body['id']);
  await api.call('POST', `/v1/sessions/${id}/messages`, { content: 'A small question' }, beta.headers);
  await answerStep(api.db, await claimJob(api.db, api.added.at(-1)), 'Yes');
  await indexWords(api.db);
  expect(await idsOf(api, 'q=small', beta.headers)).toEqual([id]);
});
