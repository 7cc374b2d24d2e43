import { sql } from 'kysely';
import { expect, test } from 'vitest';
import { parseId } from '../../src/domain/ids.ts';
import { createTestKey } from '../support/keys.ts';
import { readRoutes } from './documented-routes.ts';
import { startTestApi } from './test-api.ts';

test('a key names one session: it is created once, and found by it', async () => {
  await using api = await startTestApi();
  const create = (fields: object = {}) =>
    api.call('POST', '/v1/sessions', { agent: 'coder', key: 'order/7 ä', ...fields });
  const made = await Promise.all([create(), create(), create()]);
  expect(made.map(({ status }) => status).toSorted()).toEqual([200, 200, 201]);
  const ids = made.map(({ body }) => body['id']);
  expect(new Set(ids).size).toBe(1);
  expect(made[0]?.body).toMatchObject({ key: 'order/7 ä' });
  const again = await create({ title: 'Another' });
  expect(again).toMatchObject({ status: 200, body: { id: ids[0], title: null } });
  expect(await create({ agent: 'clerk' })).toMatchObject({ status: 409, body: { code: 'conflict' } });

  const at = `/v1/sessions/${encodeURIComponent('key:order/7 ä')}`;
  expect(await api.call('GET', at)).toMatchObject({ status: 200, body: { id: ids[0] } });
  expect((await api.call('POST', `${at}/messages`, { content: 'Hi' })).status).toBe(202);
  const { body } = await api.call('GET', `${at}/messages`);
  expect(body).toMatchObject({ messages: [] });
  expect((await api.call('GET', '/v1/runs')).body).toMatchObject({ runs: [{ sessionId: ids[0] }] });
  const listed = await api.call('GET', `/v1/sessions?key=${encodeURIComponent('order/7 ä')}`);
  expect(listed.body).toMatchObject({ sessions: [{ id: ids[0], key: 'order/7 ä' }], nextCursor: null });
  expect((await api.call('GET', '/v1/sessions?key=other')).body).toMatchObject({ sessions: [] });
});

test('a key that no session has is not found; one that is none is refused', async () => {
  await using api = await startTestApi();
  const missing = await api.call('POST', '/v1/sessions/key:none/messages', { content: 'Hi' });
  expect(missing).toMatchObject({ status: 404, body: { code: 'not_found', detail: 'no session has the key "none"' } });
  for (const key of ['', 'x'.repeat(257), 7, 'a\u0000b']) {
    const refused = await api.call('POST', '/v1/sessions', { agent: 'coder', key });
    expect(refused).toMatchObject({ status: 400, body: { errors: [{ path: 'key' }] } });
  }
});

test('a key belongs to its tenant', async () => {
  await using api = await startTestApi();
  await api.createSession({ key: 'mine' });
  const key = await createTestKey(api.db, 'other');
  const { headers } = key;
  expect((await api.call('GET', '/v1/sessions/key:mine', undefined, headers)).status).toBe(404);
  const own = await api.call('POST', '/v1/sessions', { agent: 'coder', key: 'mine' }, headers);
  expect(own.status).toBe(201);
});

test('every route of a session takes its key in place of its id', async () => {
  await using api = await startTestApi();
  const routes = readRoutes((await api.call('GET', '/openapi.json')).body).filter(({ path }) =>
    path.startsWith('/v1/sessions/{id}'),
  );
  expect(routes.length).toBeGreaterThan(20);
  // What a message is called does not matter: with a right body or without one, a route first finds the session.
  const statusOf = async ({ method, path }: (typeof routes)[number], session: string) => {
    const at = path.replace('{id}', encodeURIComponent(session)).replace(/\{\w+\}/, `msg_${'0'.repeat(32)}`);
    // Without it, events are a stream without end.
    const headers = { accept: 'application/json' };
    const { status, body } = await api.call(method, at, method === 'GET' ? undefined : {}, headers);
    return [status, status < 400 ? null : body['code']];
  };
  await api.createSession({ key: 'order/7 ä' });
  const other = await api.createSession();
  const isDeletion = ({ method, path }: (typeof routes)[number]) => method === 'DELETE' && path.endsWith('{id}');
  for (const route of routes.toSorted((a, b) => Number(isDeletion(a)) - Number(isDeletion(b)))) {
    const name = `${route.method} ${route.path}`;
    const names = ['key:order/7 ä', other, 'key:nobody'];
    const [byKey, byId, unknown] = await Promise.all(names.map((session) => statusOf(route, session)));
    expect([name, byKey, unknown]).toEqual([name, byId, [404, 'not_found']]);
  }
});

test('a list takes the key of a session as well', async () => {
  await using api = await startTestApi();
  const parent = await api.createSession({ key: 'order-7' });
  const { body } = await api.send('key:order-7', 'Hi');
  expect((await api.call('GET', '/v1/runs?sessionId=key:order-7')).body).toMatchObject({
    runs: [{ id: body['runId'] }],
  });
  const child = await api.createSession();
  await sql`update sessions set parent_session_id = ${parseId('session', parent)} where id = ${parseId('session', child)}`.execute(
    api.db,
  );
  const children = await api.call('GET', '/v1/sessions?parent=key:order-7');
  expect(children.body).toMatchObject({ sessions: [{ id: child }] });
  for (const path of ['/v1/runs?sessionId=key:none', '/v1/sessions?parent=key:none'])
    expect(await api.call('GET', path)).toMatchObject({ status: 404, body: { code: 'not_found' } });
  expect(await api.call('GET', '/v1/runs?sessionId=order-7')).toMatchObject({
    status: 400,
    body: { errors: [{ path: 'sessionId' }] },
  });
});

test('a token opens its session by the key, too, and no other one', async () => {
  await using api = await startTestApi();
  const session = await api.createSession({ key: 'mine' });
  await api.createSession({ key: 'foreign' });
  const { token } = (await api.call('POST', `/v1/sessions/${session}/tokens`, { access: 'write' })).body;
  const headers = { authorization: `Bearer ${token}` };
  const send = (key: string) => api.call('POST', `/v1/sessions/key:${key}/messages`, { content: 'Hi' }, headers);
  expect((await send('mine')).status).toBe(202);
  const chat = (key: string) =>
    api.call('GET', `/api/chat/${encodeURIComponent(`key:${key}`)}/messages`, undefined, headers);
  expect((await chat('mine')).status).toBe(200);
  for (const key of ['foreign', 'none']) {
    expect((await send(key)).status).toBe(403);
    expect((await chat(key)).status).toBe(403);
  }
});
