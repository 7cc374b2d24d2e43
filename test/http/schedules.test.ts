import { describe, expect, test, vi } from 'vitest';
import { SCOPES } from '../../src/domain/access.ts';
import { formatId } from '../../src/domain/ids.ts';
import { readClock } from '../../src/store/around/schedules.ts';
import { createTestKey } from '../support/keys.ts';
import { startTestApi } from './test-api.ts';

const FIELDS = { agent: 'coder', cron: '0 9 * * 1-5', timezone: 'Europe/Berlin', content: 'Good morning' };

describe('/v1/schedules', () => {
  test('creates, lists, reads, changes, pauses, resumes and deletes, and each change is audited', async () => {
    await using api = await startTestApi();
    const created = await api.call('POST', '/v1/schedules', FIELDS);
    expect(created.status).toBe(201);
    const { id, nextFireAt } = created.body;
    expect(created.headers.get('location')).toBe(`/v1/schedules/${id}`);
    expect(created.body).toMatchObject({ ...FIELDS, session: 'new', overlap: 'skip', catchup: 'none', paused: false });
    expect((await api.call('GET', '/v1/schedules')).body['schedules']).toEqual([created.body]);
    const next = await api.call('GET', `/v1/schedules/${id}/next`);
    expect(next.body['fires']).toHaveLength(10);
    expect(next.body['fires']).toContain(nextFireAt);
    const paused = await api.call('POST', `/v1/schedules/${id}/pause`, { reason: 'holidays' });
    expect(paused.body).toMatchObject({ paused: true, pausedReason: 'holidays', nextFireAt: null });
    const resumed = await api.call('POST', `/v1/schedules/${id}/resume`);
    expect(resumed.body).toMatchObject({ paused: false, pausedReason: null, nextFireAt });
    const changed = await api.call('PATCH', `/v1/schedules/${id}`, { cron: '30 4 * * *', timezone: 'UTC', title: 'T' });
    expect(changed.body).toMatchObject({ content: FIELDS.content, cron: '30 4 * * *', title: 'T' });
    expect(String(changed.body['nextFireAt'])).toMatch(/T04:30:00\.000Z$/);
    expect((await api.call('PATCH', `/v1/schedules/${id}`, { timezone: 'Mars/Base' })).status).toBe(400);
    expect((await api.call('GET', `/v1/schedules/${id}`)).body).toEqual(changed.body);
    expect((await api.call('DELETE', `/v1/schedules/${id}`)).status).toBe(204);
    expect((await api.call('GET', `/v1/schedules/${id}`)).status).toBe(404);
    const { body } = await api.call('GET', '/v1/audit');
    const actions = (body['entries'] as { action: string }[]).map(({ action }) => action);
    expect(actions).toEqual([
      'schedule:delete',
      'schedule:update',
      'schedule:resume',
      'schedule:pause',
      'schedule:create',
    ]);
  });

  test.each([-7, 7])('follows the clock of Postgres where that of the API is off by %i hours', async (hours) => {
    await using api = await startTestApi();
    const nowMs = await readClock(api.db);
    vi.useFakeTimers({ toFake: ['Date'], now: nowMs + hours * 3_600_000 });
    try {
      const isNext = (time: unknown) => {
        const aheadMs = Date.parse(String(time)) - nowMs;
        return aheadMs > 0 && aheadMs < 3_700_000;
      };
      const { id, nextFireAt } = (await api.call('POST', '/v1/schedules', { ...FIELDS, cron: '0 * * * *' })).body;
      const changed = await api.call('PATCH', `/v1/schedules/${id}`, { cron: '30 * * * *' });
      await api.call('POST', `/v1/schedules/${id}/pause`);
      const resumed = await api.call('POST', `/v1/schedules/${id}/resume`);
      const next = await api.call('GET', `/v1/schedules/${id}/next?n=1`);
      await api.call('POST', `/v1/schedules/${id}/run`);
      const times = [nextFireAt, changed.body['nextFireAt'], resumed.body['nextFireAt'], ...Object(next.body['fires'])];
      expect(times.map(isNext)).toEqual([true, true, true, true]);
      const [fire] = Object((await api.call('GET', `/v1/schedules/${id}/fires`)).body['fires']);
      expect(Math.abs(Date.parse(fire.fireAt) - nowMs)).toBeLessThan(3_600_000);
    } finally {
      vi.useRealTimers();
    }
  });

  test('runs one now, once by the same key, and not while its last run is active', async () => {
    await using api = await startTestApi();
    const { id, nextFireAt } = (await api.call('POST', '/v1/schedules', FIELDS)).body;
    const run = (key: string) => api.call('POST', `/v1/schedules/${id}/run`, undefined, { 'idempotency-key': key });
    const first = await run('a');
    expect(first.status).toBe(202);
    expect((await run('a')).body).toEqual(first.body);
    expect(api.added).toHaveLength(1);
    expect((await run('b')).body['code']).toBe('session_busy');
    const { body } = await api.call('GET', `/v1/schedules/${id}/fires`);
    expect(body).toMatchObject({ fires: [{ result: 'fired', ...first.body }], next: null });
    const after = await api.call('GET', `/v1/schedules/${id}`);
    expect(after.body).toMatchObject({ nextFireAt, lastRunId: first.body['runId'] });
    const messages = await api.call('GET', `/v1/sessions/${first.body['sessionId']}/queue`);
    expect(messages.text).toContain('Good morning');
  });

  test('replaces the last run where a fire is requested, in the name of its caller and once by the same key', async () => {
    await using api = await startTestApi();
    const key = await createTestKey(api.db, 'default', SCOPES);
    const call = (method: string, path: string, body?: object, headers: object = {}) =>
      api.call(method, path, body, { ...key.headers, ...headers });
    const { id } = (await call('POST', '/v1/schedules', { ...FIELDS, overlap: 'replace' })).body;
    const run = (name: string) => call('POST', `/v1/schedules/${id}/run`, undefined, { 'idempotency-key': name });
    const first = await run('a');
    const statusOf = async ({ body }: typeof first) => (await call('GET', `/v1/runs/${body['runId']}`)).body['status'];
    expect((await run('a')).body).toEqual(first.body);
    expect(await statusOf(first)).toBe('queued');
    const second = await run('b');
    expect([await statusOf(first), await statusOf(second)]).toEqual(['cancelled', 'queued']);
    const { body } = await call('GET', '/v1/audit');
    const [run2, cancel] = Object(body['entries']);
    const keyId = formatId('key', key.id);
    expect([run2, cancel]).toMatchObject([
      { action: 'schedule:run', target: `/v1/schedules/${id}/run`, keyId },
      { action: 'run:cancel', target: `/v1/runs/${first.body['runId']}/cancel`, keyId },
    ]);
  });
});
