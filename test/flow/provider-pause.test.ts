import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { agentSchema, agentVersion } from '../../src/agents/agent.ts';
import { formatId } from '../../src/domain/ids.ts';
import { requestCancel } from '../../src/store/changes/cancels.ts';
import { findRun } from '../../src/store/session/runs.ts';
import { insertSession } from '../../src/store/session/sessions.ts';
import { readEvents } from '../../src/store/transcript/events.ts';
import { pauseModel } from '../../src/store/work/provider-pauses.ts';
import { agentWith, eventsOf, readingReplies, readTool, roundsOf } from '../compaction/compaction-support.ts';
import { anyBackend, availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService, type TestService } from '../support/service.ts';

const retries = async ({ deps }: TestService, session: string, tenantId = 'default') =>
  (await readEvents(deps.db, tenantId, session, { afterSeq: 0, limit: 100 })).filter(
    ({ type }) => type === 'step:retrying',
  );

/** When Postgres says that the session's run is due. */
async function dueAt({ deps }: TestService, session: string): Promise<string | undefined> {
  const { rows } = await sql<{ at: Date }>`
    select pending_at as at from runs where session_id = ${session} and claim_id is null`.execute(deps.db);
  return rows[0]?.at.toISOString();
}

/** As if what sessions were told so far had been a while ago: the few seconds after it are over. */
const letSecondsPass = ({ deps }: TestService) =>
  sql`update provider_pauses set told_at = told_at - interval '1 minute'`.execute(deps.db);

/** A session of another tenant, and its run. */
async function goAs({ deps, sendParts }: TestService, tenantId: string, model = 'simulated/test') {
  const agent = agentSchema.parse({ name: 'tester', model });
  const kept = { agentName: agent.name, agentVersion: agentVersion(agent), agentSnapshot: agent };
  const { id: sessionId } = await insertSession(deps.db, {
    id: deps.newId(),
    tenantId,
    ...kept,
    title: null,
    metadata: {},
  });
  const { runId } = await sendParts(sessionId, [{ type: 'text', text: 'Go' }], tenantId);
  const ended = () =>
    eventually(async () => {
      const { status } = await findRun(deps.db, tenantId, runId);
      return ['completed', 'failed'].includes(status) ? status : null;
    }, 'the run ends');
  return { sessionId, runId, ended };
}

const TOLD_MS = 600_000;

describe.each(availableBackends())('a provider that asks sessions to wait, on %s', (backend) => {
  it('holds others of the tenant off for seconds after one, and for the whole time after two', async () => {
    await using service = await startTestService({ backend });
    service.simulator.script('test', () => ({ text: 'Here.' }));
    const isTold = async () => {
      service.simulator.fault('test', { kind: 'rate-limit', retryAfterMs: TOLD_MS });
      const { sessionId } = await goAs(service, 'default');
      await eventually(async () => (await retries(service, sessionId)).length === 1, 'the session is told to wait');
      return sessionId;
    };
    const waits = async () => {
      const { sessionId, runId } = await goAs(service, 'default');
      await eventually(async () => (await retries(service, sessionId)).length === 1, 'the session waits');
      const [retry] = await retries(service, sessionId);
      const nextAttemptAt = (await dueAt(service, sessionId)) ?? '';
      const error = expect.objectContaining({ code: 'rate_limited' });
      expect(retry?.data).toEqual({ runId: formatId('run', runId), step: 1, attempt: 1, error, nextAttemptAt });
      expect(await requestCancel(service.deps.db, 'default', runId)).toMatchObject({ status: 'cancelled' });
      return Date.parse(nextAttemptAt) - Date.now();
    };
    await service.startWorker();
    await isTold();
    expect(await waits()).toBeLessThan(10_000);
    expect(service.simulator.requests).toHaveLength(1);
    await letSecondsPass(service);
    await isTold();
    await letSecondsPass(service);
    expect(await waits()).toBeGreaterThan(TOLD_MS / 2);
    expect(service.simulator.requests).toHaveLength(2);
  });

  it('holds off no other tenant, and no other model', async () => {
    await using service = await startTestService({ backend });
    service.simulator.script('test', () => ({ text: 'Here.' }));
    service.simulator.script('other', () => ({ text: 'Here.' }));
    await service.startWorker();
    for (const _ of [1, 2]) {
      service.simulator.fault('test', { kind: 'rate-limit', retryAfterMs: TOLD_MS });
      const { sessionId } = await goAs(service, 'loud');
      await eventually(
        async () => (await retries(service, sessionId, 'loud')).length === 1,
        'the session is told to wait',
      );
      await letSecondsPass(service);
    }
    for (const [tenantId, model] of [
      ['quiet', 'simulated/test'],
      ['loud', 'simulated/other'],
    ] as const) {
      const { sessionId, ended } = await goAs(service, tenantId, model);
      expect(await ended()).toBe('completed');
      expect(await retries(service, sessionId, tenantId)).toEqual([]);
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
  const backend = anyBackend();

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
    const { runId } = await service.maintain(session, 'compaction');
    expect(await service.ended(runId)).toMatchObject({ status: 'completed' });
    const owned = stack.move();
    return { service, session, [Symbol.asyncDispose]: () => owned.disposeAsync() };
  }

  it('is not asked meanwhile: the compaction waits, and is done when the pause is over', async () => {
    await using compacted = await compactAfter(({ deps }) =>
      pauseModel(deps.db, deps.models('simulated/test'), { tenantId: 'default', sessionId: deps.newId() }, 2_000),
    );
    const { service, session } = compacted;
    expect(await roundsOf(service, session)).toMatchObject([{ state: 'completed', attempts: 1 }]);
    const told = (await eventsOf(service, session)).map(({ type }) => type);
    expect(told.indexOf('step:retrying')).toBeGreaterThan(0);
    expect(told.indexOf('step:retrying')).toBeLessThan(told.indexOf('compaction:start'));
  });

  it('and that is told to wait itself has the others of its tenant know', async () => {
    await using compacted = await compactAfter(async ({ simulator }) => simulator.summaries(['429']));
    const { service, session } = compacted;
    expect(await roundsOf(service, session)).toMatchObject([{ state: 'failed', error: { code: 'rate_limited' } }]);
    const { endpoint, credential } = service.deps.models('simulated/test');
    const { rows } = await sql`
      select model, endpoint, credential, tenant_id, session_id from provider_pauses`.execute(service.deps.db);
    expect(rows).toEqual([{ model: 'test', endpoint, credential, tenant_id: 'default', session_id: session }]);
  });
});
