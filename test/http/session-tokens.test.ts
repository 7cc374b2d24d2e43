import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { formatId, parseId } from '../../src/domain/ids.ts';
import { tokenReach } from '../../src/domain/run/session-token.ts';
import { DEFAULT_MAX_STEPS } from '../../src/domain/tunables.ts';
import { revokeApiKey } from '../../src/store/around/api-keys.ts';
import { createTestKey, type TestKey } from '../support/keys.ts';
import { readRoutes, readSchemas } from './documented-routes.ts';
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
      ['POST', '/v1/keys'],
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
    const sealed = Buffer.from(token.slice('batontoken_'.length), 'base64url');
    const flipped = (at: number): string => {
      const bytes = Buffer.from(sealed);
      bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at);
      return `batontoken_${bytes.toString('base64url')}`;
    };
    const read = (text: string) => api.call('GET', `/v1/sessions/${mine}`, undefined, bearer(text));
    const past = await tokenOf({ expiresInSeconds: 1 });
    for (const wrong of [
      ...[0, 16, sealed.length >> 1, sealed.length - 1].map(flipped),
      token.slice(0, -1),
      `${token}A`,
      `${token}=`,
      `${token.slice(0, 40)}.${token.slice(40)}`,
      'batontoken_',
      `batontoken_${'x'.repeat(40)}`,
      `batontoken_${'x'.repeat(3_000)}`,
    ]) {
      expect((await read(wrong)).status, wrong).toBe(401);
    }
    await expect.poll(async () => (await read(past)).status).toBe(401);
    expect((await read(token)).status).toBe(200);
  });

  it('tells its holder neither the tenant nor the key', async () => {
    const seen = Buffer.from((await tokenOf()).slice('batontoken_'.length), 'base64url').toString('latin1');
    for (const secret of ['default', key.id, 'tenantId', formatId('session', key.id)])
      expect(seen).not.toContain(secret);
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

/** What a message may cost by its agent, which has 7 steps. */
const LIMITS = ['max_steps', 'budget_tokens', 'budget_cost_usd'] as const;

describe('the holder of a token', () => {
  const withSession = async (agent = 'clerk') =>
    String((await api.call('POST', '/v1/sessions', { agent }, key.headers)).body['id']);
  const tokenFor = async (session: string, fields: object = {}) => {
    const made = await api.call('POST', `/v1/sessions/${session}/tokens`, { access: 'write', ...fields }, key.headers);
    return bearer(String(made.body['token']));
  };
  const limitsOf = async (runId: unknown) => {
    const [run] = await api.db
      .selectFrom('runs')
      .select([...LIMITS, 'deadline_at'])
      .where('id', '=', parseId('run', String(runId)) ?? '')
      .execute();
    return run;
  };

  it.each<[string, object, object]>([
    ['no limit', {}, { max_steps: 7, budget_tokens: null, budget_cost_usd: null, deadline_at: null }],
    ['more steps', { maxSteps: 10_000 }, { max_steps: 7 }],
    ['fewer steps', { maxSteps: 3 }, { max_steps: 3 }],
    [
      'all the tokens there are',
      { maxTokens: Number.MAX_SAFE_INTEGER },
      { max_steps: 7, budget_tokens: Number.MAX_SAFE_INTEGER },
    ],
    ['a sum', { maxCostUsd: 0.25 }, { max_steps: 7, budget_cost_usd: 0.25 }],
    ['time', { deadlineMs: 60_000 }, { max_steps: 7, deadline_at: expect.any(Date) }],
  ])('who names %s gets at most what the agent has', async (_name, limits, expected) => {
    const session = await withSession();
    const headers = await tokenFor(session);
    const sent = await api.call('POST', `/v1/sessions/${session}/messages`, { content: 'Hi', limits }, headers);
    expect(sent.status).toBe(202);
    expect(await limitsOf(sent.body['runId'])).toMatchObject(expected);
  });

  it('gets no more steps than the default where the agent names none', async () => {
    const session = await withSession('coder');
    const sent = await api.call(
      'POST',
      `/v1/sessions/${session}/messages`,
      { content: 'Hi', limits: { maxSteps: 10_000 } },
      await tokenFor(session),
    );
    expect(await limitsOf(sent.body['runId'])).toMatchObject({ max_steps: DEFAULT_MAX_STEPS });
  });

  it('raises nothing by a chat, a resume or a message that joins what others limited', async () => {
    const session = await withSession();
    const headers = await tokenFor(session);
    const much = { limits: { maxSteps: 9_999, maxCostUsd: 1_000 } };
    const chat = { ...chatBody(session), ...much };
    const page = await fetch(`${api.url}/api/chat`, {
      method: 'POST',
      body: JSON.stringify(chat),
      headers: { 'content-type': 'application/json', ...headers },
    });
    await page.body?.cancel();
    const [first] = (await api.call('GET', '/v1/runs?limit=1', undefined, key.headers)).body['runs'] as {
      id: string;
    }[];
    expect(await limitsOf(first?.id)).toMatchObject({ max_steps: 7 });
    // Behind the first run a backend limits the next one by its key; a message of the holder comes after it.
    const next = { content: 'Next', delivery: 'followup' };
    await api.call('POST', `/v1/sessions/${session}/messages`, { ...next, limits: { maxSteps: 2 } }, key.headers);
    await api.call('POST', `/v1/sessions/${session}/messages`, { ...next, ...much }, headers);
    await api.call('POST', `/v1/sessions/${session}/cancel`, {}, headers);
    const resumed = await api.call('POST', `/v1/sessions/${session}/resume`, much, headers);
    expect(resumed.status).toBe(202);
    expect(await limitsOf(resumed.body['runId'])).toMatchObject({ max_steps: 2, budget_cost_usd: 1_000 });
    // Once more: the stopped run's own limits hold, too.
    await api.call('POST', `/v1/sessions/${session}/cancel`, {}, headers);
    const again = await api.call('POST', `/v1/sessions/${session}/resume`, { limits: { maxSteps: 6 } }, headers);
    expect(await limitsOf(again.body['runId'])).toMatchObject({ max_steps: 2 });
  });

  it('gets what the token was made with, and may lower it', async () => {
    const session = await withSession();
    const headers = await tokenFor(session, { limits: { maxSteps: 20, maxCostUsd: 0.5 } });
    const send = (limits: object) =>
      api.call('POST', `/v1/sessions/${session}/messages`, { content: 'Hi', delivery: 'interrupt', limits }, headers);
    expect(await limitsOf((await send({})).body['runId'])).toMatchObject({ max_steps: 20, budget_cost_usd: 0.5 });
    const less = await send({ maxSteps: 4, maxCostUsd: 3 });
    expect(await limitsOf(less.body['runId'])).toMatchObject({ max_steps: 4, budget_cost_usd: 0.5 });
  });

  /** Every field of the bodies that a token reaches: null, it is free; else the allowance that it needs. */
  const FIELDS: Readonly<Record<string, Readonly<Record<string, string | null>>>> = {
    'POST /v1/sessions/{id}/messages': {
      content: null,
      id: null,
      delivery: null,
      // Lowered only: the tests above.
      limits: null,
      webhook: 'webhook',
      output: 'output',
    },
    'POST /v1/sessions/{id}/resume': { limits: null },
    'POST /v1/sessions/{id}/cancel': { queue: null },
    'PATCH /v1/sessions/{id}/queue/{messageId}': { content: null, delivery: null },
    // Whoever may write in a session answers for its user.
    'POST /v1/runs/{id}/tool-calls/{toolCallId}': {
      decision: null,
      args: null,
      reason: null,
      output: null,
      isError: null,
    },
    'POST /v1/runs/{id}/cancel': {},
    // The agent is that of a new chat, and a token opens a session that exists.
    'POST /api/chat': {
      id: null,
      agent: null,
      delivery: null,
      limits: null,
      message: null,
      messages: null,
      trigger: null,
      messageId: null,
    },
    'POST /api/chat/{id}/stop': { activeStreamId: null },
  };
  const VALUES: Readonly<Record<string, unknown>> = {
    webhook: { url: 'https://collector.example/', secret: 'x'.repeat(32) },
    output: { schema: { type: 'object', properties: {} } },
  };

  it('reaches no field of a body that is not in the table', async () => {
    const { body } = await api.call('GET', '/openapi.json', undefined, key.headers);
    const schemas = readSchemas(body);
    const reached = readRoutes(body).filter(
      ({ method, path }) =>
        !['GET', 'HEAD', 'DELETE'].includes(method) &&
        tokenReach(method, path.replaceAll(/\{\w+\}/g, 'x')).kind !== 'none',
    );
    const found = reached.map(({ method, path, bodies }) => {
      const schema = bodies['application/json'] as { $ref?: string; properties?: object } | undefined;
      const named = schema?.$ref === undefined ? schema : schemas[schema.$ref.split('/').at(-1) ?? ''];
      return [
        `${method} ${path}`,
        Object.keys((named as { properties?: object } | undefined)?.properties ?? {}).sort(),
      ];
    });
    const listed = Object.entries(FIELDS).map(([route, fields]) => [route, Object.keys(fields).sort()]);
    expect(Object.fromEntries(found)).toEqual(Object.fromEntries(listed));
  });

  it.each(['webhook', 'output'])('may not name %s, unless the token was made for it', async (field) => {
    const session = await withSession();
    const body = { content: 'Hi', [field]: VALUES[field] };
    const send = async (headers: Record<string, string>) =>
      api.call('POST', `/v1/sessions/${session}/messages`, body, headers);
    const refused = await send(await tokenFor(session));
    expect([refused.status, refused.body.errors?.[0]?.path]).toEqual([403, field]);
    expect((await send(await tokenFor(session, { allow: [field] }))).status).toBe(202);
    expect((await send(key.headers)).status).toBe(202);
  });
});

const chatBody = (id: string) => ({ id, message: { role: 'user', parts: [{ type: 'text', text: 'Hi' }] } });
