import { describe, expect, it } from 'vitest';
import { listMessages } from '../../src/store/transcript/messages.ts';
import {
  agentWith,
  eventsOf,
  readingReplies,
  readTool,
  requestsOf,
  roundsOf,
  sessionOf,
} from '../compaction/compaction-support.ts';
import { anyBackend } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService, type TestService } from '../support/service.ts';

const backend = anyBackend();
const WINDOW = 16_000;
const POLICY = { maxContextTokens: WINDOW, prune: { enabled: false } };

async function smallService(environment: Record<string, string> = {}): Promise<TestService> {
  const service = await startTestService({ backend, tools: [readTool], environment });
  service.simulator.setWindow('test', WINDOW);
  return service;
}

/** Lets the model read this many files. Returns the run. */
async function readFiles(service: TestService, session: string, count: number) {
  service.simulator.script('test', readingReplies(count, 1_500));
  return service.ended((await service.send(session, 'Read all the files.')).runId);
}

describe('a summarizer that fails', () => {
  it('by silence, as any model that is silent for too long, is given up, and the run goes on', async () => {
    await using service = await smallService({ BATON_FIRST_CHUNK_TIMEOUT_MS: '2500' });
    service.simulator.summaries(['hang']);
    await service.startWorker();
    const session = await service.createSession(agentWith(POLICY));
    expect((await readFiles(service, session, 12)).status).toBe('completed');
    expect((await roundsOf(service, session))[0]).toMatchObject({ state: 'failed', error: { code: 'timeout' } });
  });
});

describe('a compaction under way', () => {
  async function compacting(service: TestService) {
    service.simulator.summaries(['hang']);
    service.simulator.script('test', readingReplies(12, 1_500));
    const session = await service.createSession(agentWith(POLICY));
    const { runId } = await service.send(session, 'Read all the files.');
    await eventually(
      async () =>
        (await sessionOf(service, session)).compacting_since !== null && requestsOf(service).summaries.length === 1,
      'the summarizer is asked',
    );
    return { session, runId };
  }

  it('is cancelled with its run: the history stays as it was', async () => {
    await using service = await smallService();
    await service.startWorker();
    const { session, runId } = await compacting(service);
    const before = await listMessages(service.deps.db, 'default', session, { afterSeq: 0, limit: 1_000 });
    await service.cancel(runId);
    expect((await service.ended(runId)).status).toBe('cancelled');
    expect(await sessionOf(service, session)).toMatchObject({
      compacting_since: null,
      compaction_count: 0,
      status: 'idle',
    });
    expect((await roundsOf(service, session)).map(({ state }) => state)).toEqual(['failed']);
    expect(await listMessages(service.deps.db, 'default', session, { afterSeq: 0, limit: 1_000 })).toEqual(before);
  });

  it('is taken up by the next worker when its own is shut down, and pays for one summary', async () => {
    await using service = await smallService({ BATON_SHUTDOWN_GRACE_MS: '0' });
    const first = await service.startWorker();
    const { session, runId } = await compacting(service);
    await first[Symbol.asyncDispose]();
    await service.startWorker();
    expect((await service.ended(runId)).status).toBe('completed');
    const rounds = await roundsOf(service, session);
    expect(rounds.slice(0, 2).map(({ state }) => state)).toEqual(['failed', 'completed']);
    expect((await toldOf(service, session)).slice(0, 4)).toEqual(['start', 'failed', 'start', 'complete']);
    expect(await sessionOf(service, session)).toMatchObject({ compacting_since: null });
  });

  it('ends with its run when that is cancelled while no worker has it', async () => {
    await using service = await smallService({ BATON_SHUTDOWN_GRACE_MS: '0' });
    const first = await service.startWorker();
    const { session, runId } = await compacting(service);
    await first[Symbol.asyncDispose]();
    expect(await service.cancel(runId)).toMatchObject({ status: 'cancelled' });
    expect(await sessionOf(service, session)).toMatchObject({ compacting_since: null, compaction_count: 0 });
    expect((await roundsOf(service, session)).map(({ state }) => state)).toEqual(['failed']);
    expect(await toldOf(service, session)).toEqual(['start', 'failed']);
  });

  it.each([
    ['', null, 'context_exhausted'],
    [', and a run of which only its final answer was left ends for its limit', 'max_steps', 'max_steps'],
  ] as const)('is closed by the next worker also where that begins none itself%s', async (_what, limit, reason) => {
    await using service = await smallService({ BATON_SHUTDOWN_GRACE_MS: '0' });
    const first = await service.startWorker();
    const { session, runId } = await compacting(service);
    await first[Symbol.asyncDispose]();
    // The state says that compactions have not helped so far, so that the next one gives up.
    const { context_state: state } = await sessionOf(service, session);
    const used = { ...Object(state), compactionsSinceStep: 9 };
    await service.deps.db
      .updateTable('sessions')
      .set({ context_state: JSON.stringify(used) })
      .execute();
    const until = limit === null ? null : new Date(Date.now() + 60_000).toISOString();
    await service.deps.db.updateTable('runs').set({ final_answer_for: limit, final_answer_until: until }).execute();
    await service.startWorker();
    expect(await service.ended(runId)).toMatchObject({ status: 'incomplete', status_reason: reason });
    expect((await roundsOf(service, session)).map(({ state }) => state)).toEqual(['failed']);
    const failures = await eventsOf(service, session, 'compaction:failed');
    expect(failures.map(({ data }) => data['error'])).toMatchObject([
      { message: 'The worker died while it compacted.' },
      { code: 'context_exhausted' },
    ]);
  });
});

/** The types of the session's compaction events, without their prefix. */
async function toldOf(service: TestService, session: string): Promise<string[]> {
  const events = await eventsOf(service, session);
  return events.flatMap(({ type }) => (type.startsWith('compaction:') ? [type.slice('compaction:'.length)] : []));
}
