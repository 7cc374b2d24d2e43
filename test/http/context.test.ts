import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { parseId } from '../../src/domain/ids.ts';
import { fillSession } from '../console/support/large-session.ts';
import { answerStep, claimJob } from './play-worker.ts';
import { startTestApi } from './test-api.ts';

describe('the context of a session', () => {
  it('is measured as everything that acts on it sees it', async () => {
    await using api = await startTestApi();
    const session = await api.createSession();
    const empty = await api.call('GET', `/v1/sessions/${session}/context`);
    expect(empty.status).toBe(200);
    expect(empty.body).toMatchObject({ window: 200_000, usable: 168_000, compactions: [], anchor: null });
    await api.send(session, 'word '.repeat(4_000));
    await answerStep(api.db, await claimJob(api.db, api.added[0]), 'Done.');
    const { body } = await api.call('GET', `/v1/sessions/${session}/context`);
    expect(Number(body['used'])).toBeGreaterThan(Number(empty.body['used']) + 3_000);
  });

  it('is measured by the newest messages of a session that has very many, and says so', async () => {
    await using api = await startTestApi();
    const read = async (session: string) => (await api.call('GET', `/v1/sessions/${session}/context`)).body;
    const fill = async (runs: number): Promise<string> => {
      const session = await api.createSession();
      await fillSession(api.db, parseId('session', session) ?? '', runs);
      return session;
    };
    expect(await read(await fill(100))).toMatchObject({ complete: true, anchor: null });
    const session = await fill(101);
    const before = await read(session);
    expect(before).toMatchObject({ complete: false, anchor: null });
    await sql`
      update parts set content = jsonb_build_object('type', 'text', 'text', repeat('word ', 50000))
      where message_id in (select id from messages where seq = 1)`.execute(api.db);
    expect(await read(session)).toEqual(before);
  });

  it('is not there for a session that is not there', async () => {
    await using api = await startTestApi();
    const answer = await api.call('GET', '/v1/sessions/ses_018f0000000070008000000000000000/context');
    expect(answer.status).toBe(404);
  });
});

describe.each([
  ['compact', 'compaction'],
  ['prune', 'prune'],
])('POST /%s', (path, kind) => {
  it('starts a run of its own for an idle session', async () => {
    await using api = await startTestApi();
    const session = await api.createSession();
    const answer = await api.call('POST', `/v1/sessions/${session}/${path}`);
    expect(answer).toMatchObject({ status: 202, body: { sessionId: session, queued: false } });
    expect(api.added).toMatchObject([{ kind, no: 1, runId: parseId('run', String(answer.body['runId'])) }]);
    const row = await api.db.selectFrom('sessions').selectAll().executeTakeFirstOrThrow();
    expect(row).toMatchObject({
      status: 'busy',
      requested_maintenance: null,
      context_state: { pending: { reason: 'manual', force: true } },
    });
  });

  it('leaves nothing behind where it is cancelled before it began', async () => {
    await using api = await startTestApi();
    const session = await api.createSession();
    const asked = await api.call('POST', `/v1/sessions/${session}/${path}`);
    await api.call('POST', `/v1/runs/${asked.body['runId']}/cancel`);
    const sent = await api.send(session, 'Hello');
    expect(sent.body).toMatchObject({ queued: false });
    const row = await api.db.selectFrom('sessions').selectAll().executeTakeFirstOrThrow();
    expect(row.status).toBe('busy');
    expect(row.context_state['pending'] ?? null).toBeNull();
  });

  it('goes before the next step of a run that is at work', async () => {
    await using api = await startTestApi();
    const session = await api.createSession();
    const sent = await api.send(session, 'Hello');
    const claimed = await claimJob(api.db, api.added[0]);
    const answer = await api.call('POST', `/v1/sessions/${session}/${path}`);
    expect(answer).toMatchObject({ status: 202, body: { queued: true, runId: sent.body['runId'] } });
    await api.send(session, 'And another thing');
    const finished = await answerStep(api.db, claimed, 'Hi.');
    expect(finished.jobs).toMatchObject([{ kind, no: 2, runId: claimed.fence.runId }]);
  });

  it('lets a message wait for it as the queue says, sent once or again', async () => {
    await using api = await startTestApi();
    const session = await api.createSession();
    const asked = await api.call('POST', `/v1/sessions/${session}/${path}`);
    const body = { id: 'msg_018f0000000070008000000000000001', content: 'And now?' };
    const send = () => api.call('POST', `/v1/sessions/${session}/messages`, body);
    const sent = await send();
    expect(sent).toMatchObject({ status: 202, body: { queued: true, position: 1, messageId: body.id } });
    expect(sent.body['runId']).not.toBe(asked.body['runId']);
    expect((await send()).body).toEqual(sent.body);
    const { messages } = (await api.call('GET', `/v1/sessions/${session}/queue`)).body;
    expect(messages).toMatchObject([{ id: body.id, position: 1 }]);
    const told = await api.db.selectFrom('events').select('data').where('type', '=', 'message:queued').execute();
    expect(told).toEqual([{ data: { position: 1, id: body.id } }]);
  });

  it('gets a run of its own where the run at work ends', async () => {
    await using api = await startTestApi();
    const session = await api.createSession();
    await api.send(session, 'Hello');
    const claimed = await claimJob(api.db, api.added[0]);
    await api.call('POST', `/v1/sessions/${session}/${path}`);
    const finished = await answerStep(api.db, claimed, 'Hi.');
    expect(finished.jobs).toMatchObject([{ kind, no: 1 }]);
    expect(finished.jobs[0]?.runId).not.toBe(claimed.fence.runId);
    const run = await api.db
      .selectFrom('runs')
      .select('kind')
      .where('id', '=', finished.jobs[0]?.runId ?? '')
      .executeTakeFirstOrThrow();
    expect(run.kind).toBe('maintenance');
  });

  it('is refused for a session that is not there, and for fields that it does not have', async () => {
    await using api = await startTestApi();
    const missing = await api.call('POST', `/v1/sessions/ses_018f0000000070008000000000000000/${path}`);
    expect(missing.status).toBe(404);
    const odd = await api.call('POST', `/v1/sessions/${await api.createSession()}/${path}`, { now: true });
    expect(odd.status).toBe(400);
  });
});
