import fc from 'fast-check';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { formatId, parseId } from '../../src/domain/ids.ts';
import { newId } from '../../src/platform/new-id.ts';
import { retryFailedRun } from '../../src/store/changes/retry-run.ts';
import { readContext } from '../../src/store/session/context.ts';
import { createTestKey } from '../support/keys.ts';
import { propertyRuns } from '../support/property-runs.ts';
import { answerStep, claimJob, failStep } from './play-worker.ts';
import { startTestApi, type TestApi } from './test-api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api[Symbol.asyncDispose]());

const uuid = (id: unknown): string => parseId('session', String(id)) ?? '';
const revert = (session: string, toMessage: unknown, headers?: Record<string, string>) =>
  api.call('POST', `/v1/sessions/${session}/revert`, { toMessage }, headers);
const unrevert = (session: string, headers?: Record<string, string>) =>
  api.call('POST', `/v1/sessions/${session}/unrevert`, undefined, headers);

type Said = Readonly<{ id: string; seq: number; role: string; runId: string | null }>;
const messagesOf = async (session: string): Promise<Said[]> =>
  (await api.call('GET', `/v1/sessions/${session}/messages`)).body['messages'] as Said[];
const seqsOf = async (session: string) => (await messagesOf(session)).map(({ seq }) => seq);
const viewOf = async (session: string) =>
  (await readContext(api.db, 'default', uuid(session))).view.map(({ seq, parts }) => [
    seq,
    parts.map(({ type }) => type),
  ]);
const eventsOf = async (session: string) => {
  const accept = { accept: 'application/json' };
  const { body } = await api.call('GET', `/v1/sessions/${session}/events`, undefined, accept);
  return body['events'] as { type: string; runId: string | null; data: Record<string, unknown> }[];
};

async function talk(session: string, content: string, answer = 'Yes.'): Promise<string> {
  const { body } = await api.send(session, content);
  await answerStep(api.db, await claimJob(api.db, api.added.at(-1)), answer);
  return String(body['runId']);
}

/** Compacts all but the newest `kept` messages of the view. The rows are as a worker leaves them. */
async function compact(session: string, kept: number): Promise<void> {
  const id = uuid(session);
  const { view } = await readContext(api.db, 'default', id);
  const summarized = view.slice(0, view.length - kept);
  const upto = Math.max(0, ...summarized.filter(({ parts }) => parts[0]?.type !== 'compaction').map(({ seq }) => seq));
  if (upto === 0) return;
  const summary = newId();
  const { rows } = await sql<{ seq: number }>`
    update sessions set message_seq = message_seq + 1, view_start_seq = ${upto + 1}, summary_message_seq = message_seq + 1,
      compaction_count = compaction_count + 1, view_version = view_version + 1
    where id = ${id} returning message_seq as seq`.execute(api.db);
  const seq = rows[0]?.seq;
  await sql`insert into messages (id, session_id, seq, role, is_summary, finished_at)
    values (${summary}, ${id}, ${seq}, 'user', true, now())`.execute(api.db);
  await sql`insert into parts (message_id, idx, session_id, type, content)
    values (${summary}, 0, ${id}, 'compaction', '{"type":"compaction","text":"So far."}')`.execute(api.db);
  await sql`insert into compactions (id, session_id, round, strategy, reason, state, from_seq, upto_seq,
    summary_message_seq, tokens_before) select ${newId()}, ${id}, count(*) + 1, 'x', 'manual', 'completed', 1, ${upto}, ${seq},
    100 from compactions where session_id = ${id}`.execute(api.db);
}

async function talkedSession(turns = 3): Promise<string> {
  const session = await api.createSession();
  for (let no = 1; no <= turns; no++) await talk(session, `question ${no}`, `Answer ${no}.`);
  return session;
}

describe('a revert', () => {
  it('takes what came after a message out of transcript and view, and goes on behind it', async () => {
    const session = await talkedSession();
    const [, second] = await messagesOf(session);
    const before = (await api.call('GET', `/v1/sessions/${session}`)).body;
    expect(await revert(session, second?.id)).toMatchObject({
      status: 200,
      body: { sessionId: session, messageId: second?.id, messages: 4 },
    });
    expect(await seqsOf(session)).toEqual([1, 2]);
    expect(await viewOf(session)).toEqual([
      [1, ['text']],
      [2, ['step-start', 'text']],
    ]);
    const after = (await api.call('GET', `/v1/sessions/${session}`)).body;
    expect(after).toMatchObject({ status: 'idle', usage: before['usage'] as object, costUsd: before['costUsd'] });
    const listed = (await api.call('GET', `/v1/sessions?ids=${session}`)).body['sessions'] as { overview: object }[];
    expect(listed[0]?.overview).toMatchObject({ lastWords: { text: 'Answer 1.' } });
    await talk(session, 'another question', 'Another answer.');
    expect(await seqsOf(session)).toEqual([1, 2, 7, 8]);
    expect((await viewOf(session)).map(([seq]) => seq)).toEqual([1, 2, 7, 8]);
  });

  it('is told to readers and to the audit log, and changes nothing where nothing comes after', async () => {
    const session = await talkedSession(2);
    const messages = await messagesOf(session);
    await revert(session, messages[0]?.id);
    await unrevert(session);
    expect(await revert(session, messages.at(-1)?.id)).toMatchObject({ status: 200, body: { messages: 0 } });
    const data = { messageId: messages[0]?.id, seq: 1, uptoSeq: 4, messages: 3 };
    const told = await eventsOf(session);
    expect(told.slice(-2)).toMatchObject([
      { type: 'session:reverted', runId: null, data },
      { type: 'session:unreverted', runId: null, data },
    ]);
    expect(api.announced.at(-1)).toEqual({ sessionId: uuid(session), seq: told.length });
    const { body } = await api.call('GET', '/v1/audit?limit=200');
    for (const action of ['revert', 'unrevert']) {
      const entry = { action: `session:${action}`, target: `/v1/sessions/${session}/${action}` };
      expect(body['entries']).toContainEqual(expect.objectContaining(entry));
    }
  });

  it('leaves runs, their results and what they were shown as they were', async () => {
    const session = await talkedSession(1);
    const [first] = await messagesOf(session);
    const runId = await talk(session, 'two', 'B.');
    const last = await talk(session, 'three', 'C.');
    const read = async () => ({
      run: (await api.call('GET', `/v1/runs/${runId}`)).body,
      steps: (await api.call('GET', `/v1/runs/${runId}/steps`)).body,
      request: (await api.call('GET', `/v1/runs/${last}/steps/1/request`)).body['messages'],
    });
    const before = await read();
    expect(before.run).toMatchObject({ output: { text: 'B.' } });
    expect(before.request).toHaveLength(5);
    await revert(session, first?.id);
    expect(await read()).toEqual(before);
    // In a later step the model did not see the messages that the revert took out.
    const next = await talk(session, 'four', 'D.');
    const { body } = await api.call('GET', `/v1/runs/${next}/steps/1/request`);
    expect(JSON.stringify(body)).not.toContain('three');
  });

  it('is undone one after another, until a message has come', async () => {
    const session = await talkedSession();
    const ids = (await messagesOf(session)).map(({ id }) => id);
    await revert(session, ids[3]);
    await revert(session, ids[1]);
    expect(await seqsOf(session)).toEqual([1, 2]);
    expect(await unrevert(session)).toMatchObject({ status: 200, body: { messageId: ids[1], messages: 2 } });
    expect(await seqsOf(session)).toEqual([1, 2, 3, 4]);
    await unrevert(session);
    expect(await seqsOf(session)).toEqual([1, 2, 3, 4, 5, 6]);
    expect(await unrevert(session)).toMatchObject({ status: 409, body: { code: 'conflict' } });
    await revert(session, ids[1]);
    await talk(session, 'another');
    const refused = await unrevert(session);
    expect(refused).toMatchObject({ status: 409, body: { code: 'conflict' } });
    expect(refused.text).toContain('message since');
    expect(await seqsOf(session)).toEqual([1, 2, 7, 8]);
    expect(await revert(session, ids[3])).toMatchObject({ status: 409, body: { code: 'conflict' } });
  });

  it('is refused while a run is at work, and takes no message that waits', async () => {
    const session = await talkedSession(2);
    const [first] = await messagesOf(session);
    await api.send(session, 'go on');
    for (const refused of [await revert(session, first?.id), await unrevert(session)]) {
      expect(refused).toMatchObject({ status: 409, body: { code: 'session_busy' } });
      expect(refused.text).toMatch(/cancel run_/);
    }
    const claimed = await claimJob(api.db, api.added.at(-1));
    const open = (await messagesOf(session)).at(-1);
    await api.send(session, 'this waits', { delivery: 'followup' });
    await failStep(api.db, claimed, { code: 'auth', message: 'refused' });
    expect(await revert(session, first?.id)).toMatchObject({ status: 200 });
    expect((await api.call('GET', `/v1/sessions/${session}/queue`)).body['messages']).toHaveLength(1);
    expect(await revert(session, open?.id)).toMatchObject({ status: 409, body: { code: 'conflict' } });
  });

  it('leaves nothing to retry or to resume of what failed behind it', async () => {
    const session = await talkedSession(1);
    const at = (await messagesOf(session)).at(-1);
    const { body } = await api.send(session, 'this fails');
    await failStep(api.db, await claimJob(api.db, api.added.at(-1)), { code: 'auth', message: 'refused' });
    await revert(session, at?.id);
    expect(await retryFailedRun(api.db, parseId('run', String(body['runId'])) ?? '')).toBe('moved_on');
    expect(await api.call('POST', `/v1/sessions/${session}/resume`)).toMatchObject({ status: 409 });
    await unrevert(session);
    expect(await api.call('POST', `/v1/sessions/${session}/resume`)).toMatchObject({ status: 202 });
  });

  it('across a compaction brings the view back that was before it, and its undo the summary', async () => {
    const session = await talkedSession();
    const ids = (await messagesOf(session)).map(({ id }) => id);
    await compact(session, 2);
    await talk(session, 'after it');
    const whole = await viewOf(session);
    expect(whole.map(([seq]) => seq)).toEqual([7, 5, 6, 8, 9]);
    // The revert goes to a message that the compaction kept, in front of its summary.
    await revert(session, ids[4]);
    expect((await viewOf(session)).map(([seq]) => seq)).toEqual([1, 2, 3, 4, 5]);
    await unrevert(session);
    expect(await viewOf(session)).toEqual(whole);
    // A fork does not find the summary that a revert took out.
    await revert(session, ids[3]);
    const copy = String((await api.call('POST', `/v1/sessions/${session}/fork`, {})).body['id']);
    expect((await viewOf(copy)).map(([seq]) => seq)).toEqual([1, 2, 3, 4]);
    expect(await seqsOf(copy)).toEqual([1, 2, 3, 4]);
    expect(await unrevert(copy)).toMatchObject({ status: 409 });
    const reverted = await api.call('POST', `/v1/sessions/${session}/fork`, { atMessage: ids[5] });
    expect(reverted).toMatchObject({ status: 409, body: { code: 'conflict' } });
    await talk(copy, 'goes on');
    expect(await seqsOf(session)).toEqual([1, 2, 3, 4]);
    // A later revert does not find that summary either, although it has the lower number.
    await talk(session, 'one more');
    const kept = await viewOf(session);
    const [newest] = (await messagesOf(session)).slice(-1);
    await talk(session, 'and one more');
    await revert(session, newest?.id);
    expect(await viewOf(session)).toEqual(kept);
  });

  it('is one for one key, and none of what is not one’s own', async () => {
    const session = await talkedSession(2);
    const other = await talkedSession(1);
    const ids = (await messagesOf(session)).map(({ id }) => id);
    const key = { 'idempotency-key': `revert-${session}` };
    const first = await revert(session, ids[1], key);
    await unrevert(session);
    expect((await revert(session, ids[1], key)).body).toEqual(first.body);
    expect(await seqsOf(session)).toEqual([1, 2, 3, 4]);
    const [foreign] = await messagesOf(other);
    expect(await revert(session, foreign?.id)).toMatchObject({ status: 404 });
    expect(await revert(session, formatId('message', newId()))).toMatchObject({ status: 404 });
    expect(await revert(formatId('session', newId()), ids[0])).toMatchObject({ status: 404 });
    for (const bad of [undefined, 'x', 7]) {
      const refused = await revert(session, bad);
      expect(refused).toMatchObject({ status: 400, body: { errors: [{ path: 'toMessage' }] } });
    }
    await using own = await startTestApi();
    const mine = await own.createSession();
    const stranger = await createTestKey(own.db, 'other');
    for (const [path, body] of [
      ['revert', { toMessage: ids[0] }],
      ['unrevert', undefined],
    ] as const) {
      const refused = await own.call('POST', `/v1/sessions/${mine}/${path}`, body, stranger.headers);
      expect(refused).toMatchObject({ status: 404 });
    }
  });
});

const look = async (session: string) => ({ seqs: await seqsOf(session), view: await viewOf(session) });
type Look = Awaited<ReturnType<typeof look>>;

const ACTS = ['talk', 'compact', 'revert', 'unrevert'] as const;
const acts = fc.array(
  fc.record({ kind: fc.constantFrom<(typeof ACTS)[number]>('talk', 'revert', ...ACTS), at: fc.nat(100) }),
  { minLength: 4, maxLength: 14 },
);

/** A session with its states: after each of its messages, and before each revert that can be undone. */
class PlayedSession {
  readonly afterMessage = new Map<number, Look>();
  undoable: Look[] = [];
  readonly session: string;
  constructor(session: string) {
    this.session = session;
  }

  async grow(work: Promise<unknown>, before: Look): Promise<void> {
    await work;
    const after = await look(this.session);
    const newest = after.seqs.at(-1);
    if (newest === undefined || newest === before.seqs.at(-1)) return;
    this.undoable = [];
    this.afterMessage.set(newest, after);
  }

  async revertTo({ id, seq }: Said, before: Look): Promise<void> {
    const { body } = await revert(this.session, id);
    expect(await look(this.session)).toEqual(this.afterMessage.get(seq));
    if (body['messages'] !== 0) this.undoable.push(before);
  }

  async undo(before: Look): Promise<void> {
    const { status } = await unrevert(this.session);
    expect(status).toBe(this.undoable.length > 0 ? 200 : 409);
    expect(await look(this.session)).toEqual(this.undoable.pop() ?? before);
  }

  async forkedAt(atMessage?: string): Promise<Look> {
    const { body } = await api.call('POST', `/v1/sessions/${this.session}/fork`, { atMessage });
    return look(String(body['id']));
  }
}

it('a session that goes back to a message is as it was then, and so is a fork at that message', async () => {
  await fc.assert(
    fc.asyncProperty(acts, async (played) => {
      const session = await api.createSession();
      const state = new PlayedSession(session);
      for (const { kind, at } of played) {
        const before = await look(session);
        const known = (await messagesOf(session)).filter(({ seq }) => state.afterMessage.has(seq));
        const target = known.at(at % Math.max(1, known.length));
        if (kind === 'talk') await state.grow(talk(session, 'go on'), before);
        if (kind === 'compact') await state.grow(compact(session, at % 3), before);
        if (kind === 'unrevert') await state.undo(before);
        if (target === undefined) continue;
        if (kind === 'revert') await state.revertTo(target, before);
        else if (kind !== 'unrevert')
          expect(await state.forkedAt(target.id)).toEqual(state.afterMessage.get(target.seq));
        expect(await state.forkedAt()).toEqual(await look(session));
      }
    }),
    { numRuns: propertyRuns(0.2) },
  );
});
