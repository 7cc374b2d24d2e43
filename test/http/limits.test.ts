import { randomBytes } from 'node:crypto';
import { sql } from 'kysely';
import { describe, expect, inject, test } from 'vitest';
import { z } from 'zod';
import { createApp } from '../../src/app/app.ts';
import type { Caller } from '../../src/domain/access.ts';
import { parseId } from '../../src/domain/ids.ts';
import { createProcessRate, createRedisRate, type RequestRate } from '../../src/http/middleware/request-rate.ts';
import { newId } from '../../src/platform/new-id.ts';
import { deleteIfStale } from '../../src/store/around/retention.ts';
import { NO_QUOTA, readStoredBytes } from '../../src/store/session/quota.ts';
import { bytesBlob, putBlob } from '../../src/store/transcript/blobs.ts';
import { brokenInvariants } from '../store/invariants.ts';
import { countStatements } from '../support/count-statements.ts';
import { createTestKey } from '../support/keys.ts';
import { answerStep, claimJob } from './play-worker.ts';
import { startTestApi, testDeps } from './test-api.ts';

const redisUrl = inject('redisUrl');

const RATES: readonly (readonly [string, (perMinute: number) => RequestRate])[] = [
  ['in the process', (perMinute) => createProcessRate(perMinute)],
  ...(redisUrl === null ? [] : [['in Redis', (perMinute: number) => redisRate(redisUrl, perMinute, []).rate] as const]),
];

function redisRate(url: string, perMinute: number, errors: unknown[]) {
  // Each rate has its own keys in Redis. They expire after a minute.
  const prefix = `baton-test-${randomBytes(6).toString('hex')}`;
  const create = () => createRedisRate({ url, prefix, perMinute, onError: (error) => void errors.push(error) });
  return { rate: create(), create };
}

describe.each(RATES)('the rate of a tenant, counted %s', (_name, createRate) => {
  test('refuses what is too much, says when to come back, and concerns no other tenant', async () => {
    await using rate = createRate(3);
    await using api = await startTestApi({ requestRate: rate });
    const keys = [await createTestKey(api.db, 'a'), await createTestKey(api.db, 'a'), await createTestKey(api.db, 'a')];
    const other = await createTestKey(api.db, 'b');
    let asked = 0;
    // By another one of its keys each time.
    const ask = async ({ headers } = keys[asked++ % keys.length] ?? other) =>
      api.call('GET', '/v1/agents', undefined, headers);
    for (const left of ['2', '1', '0']) {
      const { status, headers } = await ask();
      expect([status, headers.get('ratelimit-limit'), headers.get('ratelimit-remaining')]).toEqual([200, '3', left]);
      expect(Number(headers.get('ratelimit-reset'))).toBeGreaterThan(0);
    }
    const { status, headers, body } = await ask();
    expect([status, body['code']]).toEqual([429, 'rate_limited']);
    expect(headers.get('content-type')).toBe('application/problem+json');
    expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
    expect(Number(headers.get('retry-after'))).toBeLessThanOrEqual(20);
    expect(headers.get('ratelimit-remaining')).toBe('0');
    expect((await ask(other)).status).toBe(200);
    expect((await api.call('GET', '/livez')).status).toBe(200);
  });

  test('counts every request, also those that come at the same moment', async () => {
    await using rate = createRate(5);
    const decisions = await Promise.all(Array.from({ length: 20 }, () => rate.take('k')));
    expect(decisions.filter(({ isAllowed }) => isAllowed)).toHaveLength(5);
  });
});

describe('a rate', () => {
  test('holds for callers that a program lets in, not for the program itself', async () => {
    const authenticate = () => ({ tenantId: 'a', scopes: ['read' as const] });
    await using api = await startTestApi({ requestRate: createProcessRate(1), authenticate });
    const statuses: number[] = [];
    for (let n = 0; n < 2; n++) statuses.push((await api.call('GET', '/v1/agents')).status);
    expect(statuses).toEqual([200, 429]);
    await using own = await testDeps({ requestRate: createProcessRate(1) });
    const app = createApp(own.deps);
    const caller: Caller = { tenantId: 'a', keyId: null, scopes: ['read'] };
    for (let n = 0; n < 2; n++) expect((await app.request('/v1/agents', {}, { caller })).status).toBe(200);
  });

  test('is nobody’s as long as there are no keys', async () => {
    await using api = await startTestApi({ requestRate: createProcessRate(1) });
    for (let n = 0; n < 3; n++) expect((await api.call('GET', '/v1/agents')).status).toBe(200);
  });

  test('is one for all processes where there is a Redis', async ({ skip }) => {
    if (redisUrl === null) return skip('there is no Redis');
    const { rate, create } = redisRate(redisUrl, 2, []);
    await using first = rate;
    await using second = create();
    const allowed = [await first.take('k'), await second.take('k'), await first.take('k')];
    expect(allowed.map(({ isAllowed }) => isAllowed)).toEqual([true, true, false]);
  });

  test('lets everybody through while Redis is away, and says so', async () => {
    const errors: unknown[] = [];
    await using rate = redisRate('redis://127.0.0.1:9', 1, errors).rate;
    expect([await rate.take('k'), await rate.take('k')]).toMatchObject([{ isAllowed: true }, { isAllowed: true }]);
    expect(errors.length).toBeGreaterThan(0);
  });
});

describe('the quota of a tenant', () => {
  const quota = { ...NO_QUOTA, tokensPerDay: 1_000, costUsdPerDay: 2.5 };

  test.each([
    ['tokens', { input_tokens: 600, output_tokens: 400 }, '1000 of 1000 tokens'],
    ['cost', { cost_usd: 2.5 }, '2.50 of 2.5 USD'],
  ])('refuses new work when the %s of the day are used up, of this tenant alone', async (_name, used, detail) => {
    await using api = await startTestApi({ quota });
    const [key, other] = [await createTestKey(api.db, 'a'), await createTestKey(api.db, 'b')];
    const call = (method: string, path: string, body?: object, headers: Record<string, string> = key.headers) =>
      api.call(method, path, body, headers);
    const create = async (headers: Record<string, string>) =>
      `/v1/sessions/${(await call('POST', '/v1/sessions', { agent: 'coder' }, headers)).body['id']}`;
    const session = await create(key.headers);
    const keyed = { ...key.headers, 'idempotency-key': 'k' };
    const first = await call('POST', `${session}/messages`, { content: 'x' }, keyed);
    expect(first.status).toBe(202);
    await api.db.updateTable('runs').set(used).execute();
    const refused = await call('POST', `${session}/messages`, { content: 'y' });
    expect([refused.status, refused.body['code']]).toEqual([429, 'quota_exceeded']);
    expect(refused.body['detail']).toContain(detail);
    for (const path of ['resume', 'compact']) {
      expect([409, 429]).toContain((await call('POST', `${session}/${path}`)).status);
    }
    // A message that was accepted before gets the same answer again.
    expect((await call('POST', `${session}/messages`, { content: 'x' }, keyed)).body).toEqual(first.body);
    expect((await call('POST', `${session}/cancel`)).status).toBe(200);
    expect((await call('POST', `${session}/resume`)).status).toBe(429);
    expect(
      (await call('POST', `${await create(other.headers)}/messages`, { content: 'x' }, other.headers)).status,
    ).toBe(202);
    await sql`update runs set created_at = clock_timestamp() - interval '1 day'`.execute(api.db);
    expect((await call('POST', `${session}/messages`, { content: 'y' })).status).toBe(202);
  });

  test.each([
    ['tokens', { input_tokens: 300, output_tokens: 200 }],
    ['cost', { cost_usd: 1.25 }],
  ])('is not given back with sessions that are deleted: %s', async (_name, used) => {
    await using api = await startTestApi({ quota });
    /** A session whose run has used half a quota and has ended. */
    const spend = async () => {
      const session = await api.createSession();
      const { body } = await api.send(session, 'x');
      await api.call('POST', `/v1/sessions/${session}/cancel`);
      const run = parseId('run', String(body['runId'])) ?? '';
      await api.db.updateTable('runs').set(used).where('id', '=', run).execute();
      return session;
    };
    const sent = async () => (await api.send(await api.createSession(), 'y')).status;
    const [first, second] = [await spend(), await spend()];
    expect(await sent()).toBe(429);
    expect((await api.call('DELETE', `/v1/sessions/${first}`)).status).toBe(204);
    expect(await sent()).toBe(429);
    const tomorrow = new Date(Date.now() + 86_400_000);
    expect(await deleteIfStale(api.db, parseId('session', second) ?? '', tomorrow)).toBe(true);
    expect(await api.db.selectFrom('runs').select('id').execute()).toEqual([]);
    expect(await sent()).toBe(429);
    // The usage of the deleted sessions is moved to yesterday: only today's counts.
    await sql`update deleted_usage set day = day - 1`.execute(api.db);
    const third = await spend();
    expect((await api.call('DELETE', `/v1/sessions/${third}`)).status).toBe(204);
    expect(await sent()).toBe(202);
  });

  test('is that of the tenant whose session is deleted, and of the runs of today', async () => {
    await using api = await startTestApi({ quota });
    const [key, other] = [await createTestKey(api.db, 'a'), await createTestKey(api.db, 'b')];
    const create = async ({ headers } = key) =>
      `/v1/sessions/${(await api.call('POST', '/v1/sessions', { agent: 'coder' }, headers)).body['id']}`;
    const send = async (session: string, { headers } = key) =>
      (await api.call('POST', `${session}/messages`, { content: 'x' }, headers)).status;
    const remove = async (session: string) => {
      await api.call('POST', `${session}/cancel`, undefined, key.headers);
      expect((await api.call('DELETE', session, undefined, key.headers)).status).toBe(204);
    };
    const old = await create();
    expect(await send(old)).toBe(202);
    await api.db.updateTable('runs').set({ input_tokens: 1_000, created_at: '2000-01-01T00:00:00Z' }).execute();
    await remove(old);
    const young = await create();
    expect(await send(young)).toBe(202);
    await api.db.updateTable('runs').set({ input_tokens: 1_000 }).execute();
    await remove(young);
    expect(await send(await create())).toBe(429);
    expect(await send(await create(other), other)).toBe(202);
  });

  test('is none where none is set', async () => {
    await using api = await startTestApi({ quota: NO_QUOTA });
    const session = await api.createSession();
    await api.send(session, 'x');
    await api.db.updateTable('runs').set({ input_tokens: 1e12, cost_usd: 1e6 }).execute();
    expect((await api.send(session, 'y')).status).toBe(202);
  });
});

describe('the storage of a tenant', () => {
  const file = (bytes: number) => randomBytes(bytes / 2).toString('hex');

  test('refuses what would be stored beyond it, of this tenant alone, until something is deleted', async () => {
    await using api = await startTestApi({ quota: { tokensPerDay: 0, costUsdPerDay: 0, storedBytes: 40_000 } });
    const [key, other] = [await createTestKey(api.db, 'a'), await createTestKey(api.db, 'b')];
    const call = (
      method: string,
      path: string,
      body?: object | string,
      headers: Record<string, string> = key.headers,
    ) =>
      api.call(method, path, body, typeof body === 'string' ? { ...headers, 'content-type': 'text/plain' } : headers);
    const create = async (headers = key.headers) => call('POST', '/v1/sessions', { agent: 'coder' }, headers);
    const session = `/v1/sessions/${(await create()).body['id']}`;
    const spare = `/v1/sessions/${(await create()).body['id']}`;
    const keyed = { ...key.headers, 'idempotency-key': 'k' };
    const message = { content: 'x'.repeat(10_000) };
    const first = await call('POST', `${session}/messages`, message, keyed);
    expect(first.status).toBe(202);
    expect((await call('POST', '/v1/blobs', file(20_000))).body['code']).toBe('storage_exceeded');
    expect((await call('POST', '/v1/blobs', file(10_000))).status).toBe(201);
    expect((await call('POST', `${session}/messages`, { content: 'x'.repeat(5_000) })).status).toBe(202);
    const refused = [
      await call('POST', `${session}/messages`, { content: 'y' }),
      await create(),
      await call('POST', `${session}/fork`),
      await call('POST', '/v1/blobs', 'a'),
      await call('POST', '/v1/chat/completions', { model: 'coder', messages: [{ role: 'user', content: 'z' }] }),
    ];
    for (const { status, body } of refused) {
      expect([status, body['code']]).toEqual([429, 'storage_exceeded']);
      expect(body['detail']).toMatch(/of 40000 bytes are stored: delete sessions/);
    }
    // A message that was accepted before gets the same answer again.
    expect((await call('POST', `${session}/messages`, message, keyed)).body).toEqual(first.body);
    expect((await create(other.headers)).status).toBe(201);
    expect((await call('DELETE', spare)).status).toBe(204);
    expect((await call('POST', `${session}/messages`, { content: 'y' })).status).toBe(202);
    expect(await brokenInvariants(api.db)).toEqual([]);
  });

  test('is counted by everybody at once, as it comes, changes and goes, and by what is committed alone', async () => {
    await using api = await startTestApi();
    const sessions = await Promise.all(Array.from({ length: 8 }, () => api.createSession()));
    const send = (session: string, n: number) => api.send(session, 'x'.repeat(100 * n));
    await Promise.all(sessions.flatMap((session) => [send(session, 1), send(session, 2), send(session, 3)]));
    expect(await readStoredBytes(api.db, 'default')).toBeGreaterThan(8 * 8_792);
    const queue = await api.call('GET', `/v1/sessions/${sessions[0]}/queue`);
    const [waiting] = z.object({ messages: z.array(z.object({ id: z.string() })) }).parse(queue.body).messages;
    const change = { content: 'longer'.repeat(50) };
    expect((await api.call('PATCH', `/v1/sessions/${sessions[0]}/queue/${waiting?.id}`, change)).status).toBe(200);
    await answerStep(api.db, await claimJob(api.db, api.added.at(-1)), 'an answer');
    expect(await brokenInvariants(api.db)).toEqual([]);
    await api.call('POST', `/v1/sessions/${sessions[0]}/cancel`);
    const rolledBack = api.db.transaction().execute(async (tx) => {
      await putBlob(tx, 'default', bytesBlob(newId(), 'text/plain', Buffer.from('gone')));
      throw new Error('rolled back');
    });
    await expect(rolledBack).rejects.toThrow('rolled back');
    expect((await api.call('DELETE', `/v1/sessions/${sessions[0]}`)).status).toBe(204);
    expect(await brokenInvariants(api.db)).toEqual([]);
    const before = await readStoredBytes(api.db, 'default');
    const { db: counted, seen } = countStatements(api.db);
    expect(await readStoredBytes(counted, 'default')).toBe(before);
    expect(seen).toMatchObject({ statements: 1, rows: 1 });
  });
});
