import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { requestCancel } from '../../src/store/cancels.ts';
import { requestMaintenance } from '../../src/store/context.ts';
import { readEvents } from '../../src/store/events.ts';
import { pauseLeftMs, pauseProvider } from '../../src/store/provider-pauses.ts';
import { agentWith, eventsOf, readingReplies, readTool, roundsOf } from '../compaction/compaction-support.ts';
import { availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { startTestService, type TestService } from '../support/service.ts';

const retries = async ({ deps }: TestService, session: string) =>
  (await readEvents(deps.db, 'default', session, 0, 100)).filter(({ type }) => type === 'step:retrying');

/** When Postgres says that the session's run is due. */
async function dueAt({ deps }: TestService, session: string): Promise<string | undefined> {
  const { rows } = await sql<{ at: Date }>`
    select pending_at as at from runs where session_id = ${session} and claim_id is null`.execute(deps.db);
  return rows[0]?.at.toISOString();
}

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
    for (const session of [told, ...others]) {
      expect((await retries(service, session))[0]?.data['nextAttemptAt']).toBe(await dueAt(service, session));
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

describe('a summarizer whose provider is paused', () => {
  const [backend = 'postgres'] = availableBackends();

  /** A session with something to summarize, and a compaction that is asked for once `before` is done. */
  async function compactAfter(before: (service: TestService) => Promise<unknown>) {
    await using stack = new AsyncDisposableStack();
    const service = stack.use(await startTestService({ backend, tools: [readTool] }));
    service.simulator.setWindow('test', 16_000);
    service.simulator.script('test', readingReplies(6, 1_500));
    await service.startWorker();
    const session = await service.createSession(agentWith({ maxContextTokens: 16_000, prune: { enabled: false } }));
    await service.ended((await service.send(session, 'Read all the files.')).runId);
    await before(service);
    const { db, jobs, newId } = service.deps;
    const asked = { tenantId: 'default', sessionId: session, kind: 'compaction', runId: newId() } as const;
    const { runId, job } = await requestMaintenance(db, asked);
    if (job !== null) await jobs.add([job]);
    expect(await service.ended(runId)).toMatchObject({ status: 'completed' });
    const owned = stack.move();
    return { service, session, [Symbol.asyncDispose]: () => owned.disposeAsync() };
  }

  it('is not asked meanwhile: the compaction waits, and is done when the pause is over', async () => {
    await using compacted = await compactAfter(({ deps }) =>
      pauseProvider(deps.db, deps.models('simulated/test'), 2_000),
    );
    const { service, session } = compacted;
    expect(await roundsOf(service, session)).toMatchObject([{ state: 'completed', attempts: 1 }]);
    const told = (await eventsOf(service, session)).map(({ type }) => type);
    expect(told.indexOf('step:retrying')).toBeGreaterThan(0);
    expect(told.indexOf('step:retrying')).toBeLessThan(told.indexOf('compaction:start'));
  });

  it('and that is told to wait itself pauses the provider for all', async () => {
    await using compacted = await compactAfter(async ({ simulator }) => simulator.summaries(['429']));
    const { service, session } = compacted;
    expect(await roundsOf(service, session)).toMatchObject([{ state: 'failed', error: { code: 'rate_limited' } }]);
    const { provider, endpoint } = service.deps.models('simulated/test');
    const { rows } = await sql`select provider, endpoint from provider_pauses`.execute(service.deps.db);
    expect(rows).toEqual([{ provider, endpoint }]);
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
