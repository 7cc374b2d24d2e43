import { describe, expect, test } from 'vitest';
import { createTestKey } from '../support/keys.ts';
import { startTestApi, type TestApi } from './test-api.ts';

const SECRET = 'x'.repeat(32);
const HOOK = { url: 'https://hooks.example/', secret: SECRET };
const DAILY = { agent: 'coder', cron: '0 9 * * *', content: 'Good morning' };

const auditOf = async (api: TestApi) => {
  const rows = await api.db.selectFrom('audit_log').select('action').orderBy('seq').execute();
  return rows.map(({ action }) => action);
};

describe.each([
  ['webhooks', HOOK, { url: 'https://other.example/' }, 'webhook'],
  ['schedules', DAILY, { content: 'Good evening' }, 'schedule'],
] as const)('a put of a key to /v1/%s', (list, fields, change, kind) => {
  const at = `/v1/${list}/${encodeURIComponent('key:a/b ä')}`;

  test('creates one, changes it, and writes nothing where all is equal', async () => {
    await using api = await startTestApi();
    const put = (body: object) => api.call('PUT', at, body);
    const all = await Promise.all([put(fields), put(fields), put(fields)]);
    expect(all.map(({ status }) => status).toSorted()).toEqual([200, 200, 201]);
    expect(new Set(all.map(({ body }) => body['id'])).size).toBe(1);
    const made = all[0]?.body;
    expect(made).toMatchObject({ key: 'a/b ä', declaredBy: null });
    expect((await put(fields)).body).toEqual(made);
    const changed = await put({ ...fields, ...change });
    expect(changed).toMatchObject({ status: 200, body: { id: made?.['id'], ...change } });
    expect(await auditOf(api)).toEqual([`${kind}:create`, `${kind}:update`]);
    expect((await api.call('GET', `/v1/${list}`)).body[list]).toEqual([changed.body]);
  });

  test('names it in every path', async () => {
    await using api = await startTestApi();
    const { body } = await api.call('PUT', at, fields);
    expect((await api.call('GET', at)).body).toEqual(body);
    expect((await api.call('PATCH', at, change)).body).toMatchObject(change);
    expect((await api.call('DELETE', at)).status).toBe(204);
    const missing = await api.call('GET', at);
    expect(missing).toMatchObject({ status: 404, body: { detail: `no ${kind} has the key "a/b ä"` } });
  });

  test('belongs to its tenant, and refuses what is no key', async () => {
    await using api = await startTestApi();
    await api.call('PUT', at, fields);
    const { headers } = await createTestKey(api.db, 'other');
    expect((await api.call('GET', at, undefined, headers)).status).toBe(404);
    expect((await api.call('PUT', at, fields, headers)).status).toBe(201);
    for (const id of ['key:', `key:${'x'.repeat(257)}`, 'shop']) {
      const refused = await api.call('PUT', `/v1/${list}/${id}`, fields, headers);
      expect(refused).toMatchObject({ status: 400, body: { errors: [{ path: 'id' }] } });
    }
  });
});

test('a webhook that is put keeps its secret, and needs one when it is new', async () => {
  await using api = await startTestApi();
  const put = (body: object) => api.call('PUT', '/v1/webhooks/key:shop', body);
  const { secret: _, ...rest } = HOOK;
  expect(await put(rest)).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
  await put(HOOK);
  await put({ url: 'https://other.example/' });
  const secretNow = async () => (await api.db.selectFrom('webhooks').select('secret').executeTakeFirst())?.secret;
  expect(await secretNow()).toBe(SECRET);
  await put({ ...rest, secret: 'y'.repeat(32) });
  expect(await secretNow()).toBe('y'.repeat(32));
});

test('a put leaves what an operator has stopped, and revives by another URL what Baton has disabled', async () => {
  await using api = await startTestApi();
  const put = async (body: object) => (await api.call('PUT', '/v1/webhooks/key:shop', body)).body['disabledFor'];
  await put(HOOK);
  await api.call('PATCH', '/v1/webhooks/key:shop', { enabled: false });
  expect(await put({ ...HOOK, url: 'https://other.example/' })).toBe('request');
  await api.db.updateTable('webhooks').set({ disabled_for: 'gone' }).execute();
  expect(await put({ ...HOOK, url: 'https://other.example/' })).toBe('gone');
  expect(await put(HOOK)).toBe(null);
  await api.call('PUT', '/v1/schedules/key:daily', DAILY);
  await api.call('POST', '/v1/schedules/key:daily/pause', { reason: 'holidays' });
  const changed = await api.call('PUT', '/v1/schedules/key:daily', { ...DAILY, content: 'Else' });
  expect(changed.body).toMatchObject({ content: 'Else', pausedReason: 'holidays' });
});
