import { describe, expect, it } from 'vitest';
import { requestCancel } from '../../src/store/cancels.ts';
import { readEvents } from '../../src/store/events.ts';
import { pauseLeftMs, pauseProvider } from '../../src/store/provider-pauses.ts';
import { availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { startTestService, type TestService } from '../support/service.ts';

const retries = async ({ deps }: TestService, session: string) =>
  (await readEvents(deps.db, 'default', session, 0, 100)).filter(({ type }) => type === 'step:retrying');

describe.each(availableBackends())('a provider that asks one session to wait, on %s', (backend) => {
  it('is asked by no other one meanwhile: they wait without an attempt, and can be cancelled', async () => {
    await using service = await startTestService({ backend });
    service.simulator.script('test', [{ text: 'Never asked.' }]);
    service.simulator.fault('test', { kind: 'rate-limit', retryAfterMs: 600_000 });
    await service.startWorker();
    const told = await service.createSession();
    const first = await service.send(told, 'Go');
    await eventually(async () => (await retries(service, told)).length === 1, 'the first session waits');
    const others = await Promise.all(Array.from({ length: 5 }, () => service.createSession()));
    const runs = await Promise.all(others.map((session) => service.send(session, 'Go')));
    for (const session of others) {
      await eventually(async () => (await retries(service, session)).length === 1, 'the others wait');
      expect((await retries(service, session))[0]?.data).toMatchObject({ attempt: 1, error: { code: 'rate_limited' } });
    }
    expect(service.simulator.requests).toHaveLength(1);
    for (const { runId } of [first, ...runs]) {
      expect(await requestCancel(service.deps.db, 'default', runId)).toMatchObject({ status: 'cancelled' });
    }
  });

  it('is asked again when the pause is over', async () => {
    await using service = await startTestService({ backend });
    service.simulator.script('test', () => ({ text: 'Here.' }));
    service.simulator.fault('test', { kind: 'rate-limit', retryAfterMs: 400 });
    await service.startWorker();
    const sessions = [await service.createSession(), await service.createSession()];
    const runs = [];
    for (const session of sessions) runs.push(await service.send(session, 'Go'));
    for (const { runId } of runs)
      expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 1 });
  });
});

describe('a pause', () => {
  it('holds for its endpoint only, and is never cut short by a shorter one', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const place = { provider: 'openai', endpoint: 'https://a.example' };
    expect(await pauseLeftMs(db, place)).toBe(0);
    await pauseProvider(db, place, 60_000);
    await pauseProvider(db, place, 1_000);
    expect(await pauseLeftMs(db, place)).toBeGreaterThan(50_000);
    expect(await pauseLeftMs(db, { ...place, endpoint: 'https://b.example' })).toBe(0);
    await pauseProvider(db, { ...place, endpoint: 'https://b.example' }, 0);
    expect(await pauseLeftMs(db, { ...place, endpoint: 'https://b.example' })).toBe(0);
  });
});
