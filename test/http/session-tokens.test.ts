import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { encodeClaims } from '../../src/domain/session-token.ts';
import { revokeApiKey } from '../../src/store/api-keys.ts';
import { createTestKey, type TestKey } from '../support/keys.ts';
import { startTestApi, type TestApi } from './test-api.ts';

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

let api: TestApi;
let key: TestKey;
let mine = '';
let other = '';

const make = async (fields: object = {}, headers = key.headers) =>
  api.call('POST', `/v1/sessions/${mine}/tokens`, fields, headers);
async function tokenOf(fields: object = {}): Promise<string> {
  const { status, body } = await make(fields);
  expect(status).toBe(201);
  return String(body['token']);
}
const newSession = async (): Promise<string> =>
  String((await api.call('POST', '/v1/sessions', { agent: 'coder' }, key.headers)).body['id']);

beforeAll(async () => {
  api = await startTestApi();
  key = await createTestKey(api.db);
  mine = await newSession();
  other = await newSession();
});
afterAll(() => api[Symbol.asyncDispose]());

describe('a token of a session', () => {
  it('opens that session alone, for reading, and for writing if it was made for that', async () => {
    const [reads, writes] = [bearer(await tokenOf()), bearer(await tokenOf({ access: 'write' }))];
    const send = { content: 'Hi' };
    expect((await api.call('GET', `/v1/sessions/${mine}`, undefined, reads)).status).toBe(200);
    expect((await api.call('POST', `/v1/sessions/${mine}/messages`, send, reads)).status).toBe(403);
    const sent = await api.call('POST', `/v1/sessions/${mine}/messages`, send, writes);
    expect(sent.status).toBe(202);
    expect((await api.call('GET', `/v1/runs/${sent.body['runId']}`, undefined, reads)).status).toBe(200);
    const foreign = await api.call('POST', `/v1/sessions/${other}/messages`, send, key.headers);
    const run = foreign.body['runId'];
    for (const [method, path, body] of [
      ['GET', '/v1/sessions'],
      ['GET', `/v1/sessions/${other}`],
      ['GET', `/v1/sessions/${other}/events`],
      ['GET', `/v1/sessions/key:${other}`],
      ['GET', `/v1/runs/${run}`],
      ['POST', `/v1/runs/${run}/cancel`],
      ['GET', '/v1/runs'],
      ['GET', `/v1/sessions/${mine}/view`],
      ['DELETE', `/v1/sessions/${mine}`],
      ['PATCH', `/v1/sessions/${mine}`, { title: 'x' }],
      ['POST', `/v1/sessions/${mine}/fork`, {}],
      ['POST', `/v1/sessions/${mine}/agent`, { agent: 'clerk' }],
      ['POST', `/v1/sessions/${mine}/tokens`, {}],
      ['POST', '/v1/sessions', { agent: 'coder' }],
      ['GET', '/v1/whoami'],
      ['GET', '/v1/keys'],
      ['GET', '/metrics'],
      ['GET', '/docs'],
      ['POST', '/v1/chat/completions', { model: 'coder', messages: [{ role: 'user', content: 'Hi' }] }],
      ['POST', '/mcp', {}],
      ['GET', `/api/chat/${other}/messages`],
      ['GET', '/api/chat/my-chat/messages'],
      ['POST', '/api/chat', chatBody(other)],
      ['POST', '/api/chat', chatBody('my-chat')],
    ] as const) {
      const { status, body: refused } = await api.call(method, path, body, { ...writes, accept: 'application/json' });
      expect({ path, status, code: refused['code'] }).toEqual({ path, status: 403, code: 'forbidden' });
    }
    expect((await api.call('GET', `/api/chat/${mine}/messages`, undefined, reads)).status).toBe(200);
  });

  it('is refused when it is changed, made up or over', async () => {
    const token = await tokenOf();
    const [, claims = '', signature = ''] = /_(.*)\.(.*)/.exec(token) ?? [];
    const read = (text: string) => api.call('GET', `/v1/sessions/${mine}`, undefined, bearer(text));
    const more = encodeClaims({ ...JSON.parse(Buffer.from(claims, 'base64url').toString()), canWrite: true });
    const past = await tokenOf({ expiresInSeconds: 1 });
    for (const wrong of [
      `batontoken_${more}.${signature}`,
      `batontoken_${claims}.`,
      `batontoken_${claims}.${signature}.x`,
      'batontoken_',
      `batontoken_${'x'.repeat(3_000)}`,
    ]) {
      expect((await read(wrong)).status, wrong).toBe(401);
    }
    await expect.poll(async () => (await read(past)).status).toBe(401);
    expect((await read(token)).status).toBe(200);
  });

  it('ends with the key that made it, also for a stream that is open', async () => {
    const own = await createTestKey(api.db);
    const { body } = await make({}, own.headers);
    const headers = bearer(String(body['token']));
    const stream = await fetch(`${api.url}/v1/sessions/${mine}/events`, { headers });
    expect(stream.status).toBe(200);
    await api.db.transaction().execute((tx) => revokeApiKey(tx, own.id));
    expect((await api.call('GET', `/v1/sessions/${mine}`, undefined, headers)).status).toBe(401);
    await stream.text();
  });

  it('ends a stream at its time', async () => {
    const headers = bearer(await tokenOf({ expiresInSeconds: 1 }));
    const stream = await fetch(`${api.url}/v1/sessions/${mine}/events`, { headers });
    await stream.text();
    expect((await api.call('GET', `/v1/sessions/${mine}`, undefined, headers)).status).toBe(401);
  });

  it.each([
    [{ expiresInSeconds: 86_401 }, 'expiresInSeconds'],
    [{ expiresInSeconds: 0 }, 'expiresInSeconds'],
    [{ access: 'admin' }, 'access'],
  ])('is not made with %j', async (fields, path) => {
    const { status, body } = await make(fields);
    expect({ status, path: body.errors?.[0]?.path }).toEqual({ status: 400, path });
  });

  it('is not made for a session of another tenant, nor by a key that may only read', async () => {
    const [foreign, reader] = [await createTestKey(api.db, 'else'), await createTestKey(api.db, 'default', ['read'])];
    expect((await make({}, foreign.headers)).status).toBe(404);
    expect((await make({}, reader.headers)).status).toBe(403);
    const made = await api.db.selectFrom('audit_log').selectAll().where('action', '=', 'session:token').execute();
    expect(made.every(({ target }) => target === `/v1/sessions/${mine}/tokens`)).toBe(true);
    expect(made.map(({ key_id: id }) => id)).toContain(key.id);
  });
});

const chatBody = (id: string) => ({ id, message: { role: 'user', parts: [{ type: 'text', text: 'Hi' }] } });
