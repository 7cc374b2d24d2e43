import { describe, expect, test } from 'vitest';
import { formatId } from '../../src/domain/ids.ts';
import { MAX_LOGIN_BODY_BYTES } from '../../src/domain/tunables.ts';
import { createIntake } from '../../src/http/intake.ts';
import { newId } from '../../src/platform/new-id.ts';
import { createTestKey } from '../support/keys.ts';
import { sendHalf } from './half-sent.ts';
import { startTestApi } from './test-api.ts';

const MIB = 1_048_576;
const BUDGET = { tenants: 4 * MIB, tenant: 2 * MIB, strangers: MIB, stranger: MIB / 2 };
const hook = {
  agent: 'coder',
  tenant: 'default',
  verify: 'github',
  secretEnv: 'X',
  secret: 'a-secret-of-a-hook',
  session: '{body.a}',
  content: '{body.a}',
  maxBytes: 262_144,
  delivery: 'steer',
} as const;
const hooks = new Map([['orders', hook]]);

/** The API with little room, how much of it is taken, and requests that end with the API. */
async function startSmallApi() {
  await using stack = new AsyncDisposableStack();
  const intake = createIntake(BUDGET);
  const api = stack.use(await startTestApi({ intake, hooks }));
  const holds = (bytes: number) => expect.poll(intake.heldBytes).toBe(bytes);
  const half = (path: string, given: Parameters<typeof sendHalf>[2]) => resources.use(sendHalf(api.url, path, given));
  const resources = stack.move();
  return { ...api, intake, holds, half, [Symbol.asyncDispose]: () => resources.disposeAsync() };
}

describe('bodies in flight', () => {
  test.each([
    ['of a route that there is not', '/v1/nothing', 404],
    ['of a method that there is not', '/v1/models', 405],
    ['of a hook that there is not', '/v1/hooks/nope', 404],
    ['of a page of the console that there is not', '/console/nothing', 404],
    ['with a wrong key', '/v1/sessions', 401],
    ['that is longer than a login', '/console/login', 413],
    ['that is longer than its hook takes', '/v1/hooks/orders', 413],
  ])('a body %s is refused before it is read', async (_what, path, status) => {
    await using api = await startSmallApi();
    const { headers } = await createTestKey(api.db);
    const sent = status === 401 ? { authorization: 'Bearer baton_wrong' } : headers;
    const { answer } = api.half(path, { declared: MIB, sent: 1_000, headers: sent });
    expect(await answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(api.intake.heldBytes()).toBe(0);
  });

  test('have a share of their tenant, and give it back when they end; other tenants have theirs', async () => {
    await using api = await startSmallApi();
    const [own, other] = [await createTestKey(api.db, 'a'), await createTestKey(api.db, 'b')];
    const send = ({ headers }: typeof own) => api.half('/v1/sessions', { declared: MIB, sent: 1_000, headers });
    const held = [send(own), send(own)];
    await api.holds(2 * MIB);
    const refused = await send(own).answer;
    expect(refused).toMatch(/^HTTP\/1.1 503 /);
    expect(refused).toMatch(/retry-after: 1\r/i);
    expect(refused).toMatch(/"detail":"[^"]*send it again[^"]*"/);
    expect(refused).toContain('"code":"intake_full"');
    expect(api.logged).toEqual([{ event: 'http_dropped', reason: 'intake_full' }]);
    send(other);
    await api.holds(3 * MIB);
    // A request without a body has always room.
    const path = `/v1/sessions/${formatId('session', newId())}/cancel`;
    expect((await api.call('POST', path, undefined, own.headers)).status).toBe(404);
    held[0]?.[Symbol.dispose]();
    await api.holds(2 * MIB);
    send(own);
    await api.holds(3 * MIB);
    expect(await (await fetch(`${api.url}/livez`)).status).toBe(200);
  });

  test('without a length take room as they grow', async () => {
    await using api = await startSmallApi();
    const { headers } = await createTestKey(api.db);
    const send = () => api.half('/v1/sessions', { declared: null, sent: 1_000, headers });
    const held = [send(), send(), send()];
    await expect.poll(api.intake.heldBytes).toBeGreaterThan(3_000);
    for (const each of held) each.send(MIB - 100_000);
    const [refused = ''] = await Promise.race(held.map(({ answer }) => answer.then((text) => [text])));
    expect(refused).toMatch(/^HTTP\/1.1 503 .*intake_full/s);
    await expect.poll(api.intake.heldBytes).toBeLessThan(2 * MIB);
  });

  test('whose answers are there take no room', async () => {
    await using api = await startSmallApi();
    const sessionId = await api.createSession();
    for (let nth = 0; nth < 10; nth++) expect((await api.send(sessionId, 'x'.repeat(300_000))).status).toBe(202);
    const upload = { method: 'POST', body: new Uint8Array(MIB), headers: { 'content-type': 'application/pdf' } };
    for (let nth = 0; nth < 4; nth++) expect((await fetch(`${api.url}/v1/blobs`, upload)).status).toBeLessThan(402);
    await api.holds(0);
  });

  test('of an address without a key have a small share, and leave that of tenants alone', async () => {
    await using api = await startSmallApi();
    const key = await createTestKey(api.db);
    const send = () => api.half('/v1/hooks/orders', { declared: 262_144, sent: 1_000 });
    void [send(), send()];
    await api.holds(MIB / 2);
    expect(await send().answer).toMatch(/^HTTP\/1.1 503 .*intake_full.*without a key from this address/s);
    const login = api.half('/console/login', { declared: MAX_LOGIN_BODY_BYTES, sent: 1 });
    expect(await login.answer).toMatch(/^HTTP\/1.1 503 /);
    const create = await api.call('POST', '/v1/sessions', { agent: 'coder' }, key.headers);
    expect(create.status).toBe(201);
  });

  test('that have stalled give way to others', async () => {
    await using api = await startSmallApi();
    await createTestKey(api.db);
    const send = () => api.half('/v1/hooks/orders', { declared: 262_144, sent: 100_000 });
    const stalled = [send(), send()];
    await api.holds(MIB / 2);
    const evicted = Promise.race(stalled.map(({ answer }) => answer));
    // A client that comes again when it is told to.
    const login = () => api.call('POST', '/console/login', { key: 'baton_x' }, { 'x-baton-console': '1' });
    await expect.poll(async () => (await login()).status).toBe(401);
    expect(await evicted).toMatch(/^HTTP\/1.1 503 .*intake_full.*so slowly/s);
    expect(api.logged).toContainEqual({ event: 'http_dropped', reason: 'body_stalled' });
    await api.holds(262_144);
  });
});
