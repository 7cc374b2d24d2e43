import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { formatId, parseId } from '../../src/domain/ids.ts';
import { newId } from '../../src/platform/new-id.ts';
import { readContext } from '../../src/store/session/context.ts';
import { createTestKey } from '../support/keys.ts';
import { PNG_BASE64 } from '../support/png.ts';
import { answerStep, askStep, claimJob } from './play-worker.ts';
import { startTestApi, type TestApi } from './test-api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api[Symbol.asyncDispose]());

const uuid = (id: unknown): string => parseId('session', String(id)) ?? '';
const fork = (session: string, body: object = {}, headers?: Record<string, string>) =>
  api.call('POST', `/v1/sessions/${session}/fork`, body, headers);

type Said = Readonly<{ id: string; seq: number; role: string; parts: readonly Record<string, unknown>[] }>;
const messagesOf = async (session: string): Promise<Said[]> =>
  (await api.call('GET', `/v1/sessions/${session}/messages`)).body['messages'] as Said[];
/** The messages of a session without their ids, to compare them with those of another session. */
const saidIn = async (session: string) =>
  (await messagesOf(session)).map(({ seq, role, parts }) => ({
    seq,
    role,
    parts: parts.map(({ id: _, ...part }) => part),
  }));

async function talk(session: string, content: unknown, answer: string): Promise<void> {
  await api.call('POST', `/v1/sessions/${session}/messages`, { content });
  await answerStep(api.db, await claimJob(api.db, api.added.at(-1)), answer);
}

/** Everything that belongs to a session. */
async function rowsOf(session: string): Promise<unknown> {
  const id = uuid(session);
  const tables = ['messages', 'parts', 'inbox', 'events', 'runs', 'compactions', 'blob_refs'];
  const counts = tables.map(
    (table) => sql`select ${table}::text as name, jsonb_agg(to_jsonb(t) order by t::text) as rows
      from ${sql.table(table)} t where session_id = ${id}`,
  );
  const own = sql`select 'sessions', to_jsonb(s) from sessions s where id = ${id}`;
  return (await sql`${sql.join([...counts, own], sql` union all `)}`.execute(api.db)).rows;
}

async function talkedSession(): Promise<string> {
  const session = await api.createSession({ title: 'Original', metadata: { team: 'red' } });
  await talk(session, 'one', 'A.');
  await talk(session, 'two', 'B.');
  return session;
}

describe('a fork', () => {
  it('says the same, goes on by itself, and leaves the other session as it was', async () => {
    const session = await talkedSession();
    const before = await rowsOf(session);
    const { status, body, headers } = await fork(session);
    expect(status).toBe(201);
    const copy = String(body['id']);
    expect(headers.get('location')).toBe(`/v1/sessions/${copy}`);
    expect(body).toMatchObject({ agent: 'coder', title: 'Original', metadata: { team: 'red' }, status: 'idle' });
    expect(body).toMatchObject({ activeRunId: null, usage: { inputTokens: 0 }, costUsd: 0 });
    expect(await saidIn(copy)).toEqual(await saidIn(session));
    const ids = (await messagesOf(session)).map(({ id }) => id);
    expect((await messagesOf(copy)).filter(({ id }) => ids.includes(id))).toEqual([]);
    expect(await rowsOf(session)).toEqual(before);
    const { body: events } = await api.call('GET', `/v1/sessions/${copy}/events`, undefined, {
      accept: 'application/json',
    });
    const [, , , last] = await messagesOf(session);
    const forkedFrom = { sessionId: session, messageId: last?.id };
    expect(events['events']).toMatchObject([{ seq: 1, type: 'session:forked', runId: null, data: { forkedFrom } }]);
    await talk(copy, 'three', 'C.');
    expect((await messagesOf(copy)).map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 5, 6]);
    expect(await rowsOf(session)).toEqual(before);
  });

  it('names the session and the message that it was made of, also when that session is gone', async () => {
    const session = await talkedSession();
    const [, second] = await messagesOf(session);
    const forkedFrom = { sessionId: session, messageId: second?.id };
    const copy = String((await fork(session, { atMessage: second?.id })).body['id']);
    const again = String((await fork(copy)).body['id']);
    const empty = await api.createSession();
    const ofEmpty = String((await fork(empty)).body['id']);
    await api.call('DELETE', `/v1/sessions/${session}`);
    expect((await api.call('GET', `/v1/sessions/${copy}`)).body).toMatchObject({ forkedFrom });
    const { body } = await api.call('GET', `/v1/sessions?ids=${[copy, again, ofEmpty, empty].join()}`);
    const [, copied] = await messagesOf(copy);
    expect((body['sessions'] as { forkedFrom: unknown }[]).map((listed) => listed.forkedFrom)).toEqual([
      forkedFrom,
      { sessionId: copy, messageId: copied?.id },
      { sessionId: empty, messageId: null },
      null,
    ]);
  });

  it('ends at the message that is named, and has the title and labels that it is given', async () => {
    const session = await talkedSession();
    const [, second] = await messagesOf(session);
    const { body } = await fork(session, { atMessage: second?.id, title: 'Copy', metadata: {} });
    expect(body).toMatchObject({ title: 'Copy', metadata: {} });
    expect((await messagesOf(String(body['id']))).map(({ seq }) => seq)).toEqual([1, 2]);
  });

  it('has no call that is open, no message that is written, and nothing that waits', async () => {
    const session = await api.createSession();
    await api.send(session, 'go');
    const asked = { kind: 'approval', toolName: 'bash' } as const;
    await askStep(api.db, await claimJob(api.db, api.added.at(-1)), [asked, asked]);
    await sql`update parts set state = 'running' where session_id = ${uuid(session)} and idx = 0 and type = 'tool'`.execute(
      api.db,
    );
    await api.send(session, 'this waits');
    const { body } = await fork(session);
    const copy = String(body['id']);
    const calls = (await messagesOf(copy)).flatMap(({ parts }) => parts.filter(({ type }) => type === 'tool'));
    expect(calls.length).toBe(2);
    for (const call of calls) expect(call).toMatchObject({ state: 'error', output: { type: 'error-text' } });
    expect((await api.call('GET', `/v1/sessions/${copy}/queue`)).body['messages']).toEqual([]);

    const busy = await api.createSession();
    await talk(busy, 'one', 'A.');
    await api.send(busy, 'two');
    await claimJob(api.db, api.added.at(-1));
    const inWork = (await messagesOf(busy)).at(-1);
    expect(await fork(busy, { atMessage: inWork?.id })).toMatchObject({ status: 409, body: { code: 'conflict' } });
    const { body: other } = await fork(busy);
    expect((await messagesOf(String(other['id']))).map(({ role }) => role)).toEqual(['user', 'assistant', 'user']);
  });

  it('keeps the outputs that the client has given to calls while others are open', async () => {
    const session = await api.createSession();
    await api.send(session, 'go');
    const asked = { kind: 'output', toolName: 'browser' } as const;
    const claimed = await claimJob(api.db, api.added.at(-1));
    const calls = await askStep(api.db, claimed, [asked, asked, asked]);
    const answer = (n: number, body: object) =>
      api.call('POST', `/v1/runs/${formatId('run', claimed.fence.runId)}/tool-calls/${calls[n]?.id}`, body);
    expect(await answer(0, { output: { title: 'A page' } })).toMatchObject({ status: 200 });
    expect(await answer(1, { output: 'No such page', isError: true })).toMatchObject({ status: 200 });
    const { body } = await fork(session);
    const copied = (await messagesOf(String(body['id']))).flatMap(({ parts }) => parts.slice(-3));
    expect(copied.filter(({ type }) => type === 'tool')).toMatchObject([
      { state: 'completed', output: { type: 'json', value: { title: 'A page' } } },
      { state: 'error', output: { type: 'error-text', value: 'No such page' } },
      { state: 'error', output: { type: 'error-text' } },
    ]);
  });

  it('begins its view as it was at that message: after the last compaction before it', async () => {
    const session = await talkedSession();
    const id = uuid(session);
    const summary = newId();
    // A compaction of the first two messages, as the worker writes it, and a message after it.
    await sql`insert into messages (id, session_id, seq, role, is_summary, finished_at)
      values (${summary}, ${id}, 5, 'user', true, now())`.execute(api.db);
    await sql`insert into parts (message_id, idx, session_id, type, content)
      values (${summary}, 0, ${id}, 'compaction', '{"type":"compaction","text":"They said one."}')`.execute(api.db);
    await sql`insert into compactions (id, session_id, round, strategy, reason, state, from_seq, upto_seq,
      summary_message_seq, tokens_before) values (${newId()}, ${id}, 1, 'x', 'manual', 'completed', 1, 2, 5, 100)`.execute(
      api.db,
    );
    await sql`update sessions set message_seq = 5, view_start_seq = 3, summary_message_seq = 5, compaction_count = 1
      where id = ${id}`.execute(api.db);
    await talk(session, 'three', 'C.');
    await sql`update parts set compacted_at = now() where session_id = ${id} and type = 'text'`.execute(api.db);
    const viewOf = async (of: unknown) =>
      (await readContext(api.db, 'default', uuid(of))).view.map(({ seq, parts }) => [
        seq,
        parts.map(({ type }) => type),
      ]);
    const whole = (await fork(session)).body['id'];
    expect(await viewOf(whole)).toEqual(await viewOf(session));
    expect((await viewOf(whole)).map(([seq]) => seq)).toEqual([5, 3, 4, 6, 7]);
    const marks = (await readContext(api.db, 'default', uuid(whole))).view[1]?.parts[0]?.marks;
    expect(marks).toEqual({ pruned: true });
    const ids = (await messagesOf(session)).map((message) => message.id);
    const early = (await fork(session, { atMessage: ids[3] })).body['id'];
    expect((await viewOf(early)).map(([seq]) => seq)).toEqual([1, 2, 3, 4]);
    // A fork of the fork finds the compaction, too.
    const again = (await fork(String(whole))).body['id'];
    expect(await viewOf(again)).toEqual(await viewOf(session));
    const { body } = await api.call('GET', `/v1/sessions/${String(again)}`);
    expect(body).toMatchObject({ compactingSince: null });
  });

  it('refers to the files of the other, and keeps them when that is deleted', async () => {
    const session = await api.createSession();
    await talk(session, [{ type: 'image', data: PNG_BASE64 }], 'A dot.');
    const copy = String((await fork(session)).body['id']);
    expect(await api.call('DELETE', `/v1/sessions/${session}`)).toMatchObject({ status: 204 });
    const [question] = await messagesOf(copy);
    const url = String(question?.parts[0]?.['url']);
    const refs = await api.db.selectFrom('blob_refs').select('blob_id').where('session_id', '=', uuid(copy)).execute();
    expect(refs.map(({ blob_id: id }) => `@blob:${formatId('blob', id)}`)).toEqual([url]);
    expect((await fetch(`${api.url}/v1/blobs/${url.slice('@blob:'.length)}`)).status).toBe(200);
  });

  it('is one for one key, and none of what is not there or not one’s own', async () => {
    const session = await talkedSession();
    const other = await talkedSession();
    const key = { 'idempotency-key': `fork-${session}` };
    const first = await fork(session, {}, key);
    expect((await fork(session, {}, key)).body).toEqual(first.body);
    const [foreign] = await messagesOf(other);
    expect(await fork(session, { atMessage: foreign?.id })).toMatchObject({ status: 404 });
    expect(await fork(session, { atMessage: formatId('message', newId()) })).toMatchObject({ status: 404 });
    expect(await fork(formatId('session', newId()))).toMatchObject({ status: 404 });
    expect(await fork(session, { at: 'x' })).toMatchObject({ status: 400 });
    await using own = await startTestApi();
    const mine = await own.createSession();
    const stranger = await createTestKey(own.db, 'other');
    expect(await own.call('POST', `/v1/sessions/${mine}/fork`, {}, stranger.headers)).toMatchObject({ status: 404 });
  });
});
