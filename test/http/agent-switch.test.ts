import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseId } from '../../src/domain/ids.ts';
import { readEvents } from '../../src/store/transcript/events.ts';
import { createTestKey } from '../support/keys.ts';
import { startTestApi, type TestApi } from './test-api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api[Symbol.asyncDispose]());

const switchTo = (session: string, body: object, headers?: Record<string, string>) =>
  api.call('POST', `/v1/sessions/${session}/agent`, body, headers);

async function stored(session: string) {
  const id = parseId('session', session) ?? '';
  const row = await api.db
    .selectFrom('sessions')
    .select(['agent_name', 'agent_version', 'agent_snapshot'])
    .where('id', '=', id)
    .executeTakeFirstOrThrow();
  const events = (await readEvents(api.db, 'default', id, { afterSeq: 0, limit: 100 })).filter(
    ({ type }) => type === 'llm:switched',
  );
  return { ...row, switches: events.map(({ data }) => data) };
}

describe('another agent', () => {
  it('is the session’s from then on, with its hash, and the log says so', async () => {
    const session = await api.createSession();
    const before = await stored(session);
    const { status, body } = await switchTo(session, { agent: 'clerk' });
    expect(status).toBe(200);
    expect(body).toMatchObject({ id: session, agent: 'clerk' });
    const after = await stored(session);
    expect(after).toMatchObject({ agent_name: 'clerk', agent_version: body['agentVersion'] });
    expect(after.agent_version).not.toBe(before.agent_version);
    expect(after.agent_snapshot).toMatchObject({ name: 'clerk', model: 'simulated/clerk', limits: { maxSteps: 7 } });
    expect(after.switches).toEqual([{ from: 'simulated/coder', to: 'simulated/clerk', agent: 'clerk' }]);
    expect(api.announced.at(-1)?.sessionId).toBe(parseId('session', session));
  });

  it('may be the same one with another model', async () => {
    const session = await api.createSession();
    await switchTo(session, { model: 'simulated-chat/other' });
    const { agent_snapshot: snapshot, switches } = await stored(session);
    expect(snapshot).toMatchObject({ name: 'coder', model: 'simulated-chat/other', tools: ['workspace'] });
    expect(switches).toEqual([{ from: 'simulated/coder', to: 'simulated-chat/other' }]);
    expect(await switchTo(session, { agent: 'clerk', model: 'simulated/x' })).toMatchObject({
      body: { agent: 'clerk' },
    });
    expect((await stored(session)).agent_snapshot).toMatchObject({ name: 'clerk', model: 'simulated/x' });
  });

  it('that is the one it has changes nothing; the same key gives the same answer', async () => {
    const session = await api.createSession();
    expect(await switchTo(session, { agent: 'coder' })).toMatchObject({ status: 200 });
    expect(await switchTo(session, { model: 'simulated/coder' })).toMatchObject({ status: 200 });
    expect((await stored(session)).switches).toEqual([]);
    const key = { 'idempotency-key': `k-${session}` };
    const first = await switchTo(session, { agent: 'clerk' }, key);
    await switchTo(session, { agent: 'coder' });
    const again = await switchTo(session, { agent: 'clerk' }, key);
    expect(again.body).toEqual(first.body);
    expect(again.headers.get('idempotency-replayed')).toBe('true');
    expect(await stored(session)).toMatchObject({ agent_name: 'coder', switches: [{}, {}] });
  });

  it.each([
    [{}, 400, 'invalid_request'],
    [{ agent: 'nobody' }, 422, 'agent_not_found'],
    [{ model: 'no slash' }, 400, 'invalid_request'],
    [{ model: 'nowhere/model' }, 503, 'model_unavailable'],
    [{ agent: 'clerk', tools: [] }, 400, 'invalid_request'],
  ])('that is none is refused: %j', async (body, status, code) => {
    const session = await api.createSession();
    expect(await switchTo(session, body)).toMatchObject({ status, body: { code } });
    expect((await stored(session)).switches).toEqual([]);
  });

  it('is not given to a session of another tenant', async () => {
    await using own = await startTestApi();
    const mine = await own.createSession();
    const other = await createTestKey(own.db, 'other');
    const path = `/v1/sessions/${mine}/agent`;
    expect(await own.call('POST', path, { agent: 'clerk' }, other.headers)).toMatchObject({ status: 404 });
  });
});
