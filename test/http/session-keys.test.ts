import { expect, test } from 'vitest';
import { createTestKey } from '../support/keys.ts';
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
