import { describe, expect, it } from 'vitest';
import { startJobWorker } from '../../src/runtime/job-worker.ts';
import { requestCancel } from '../../src/store/cancels.ts';
import { listMessages } from '../../src/store/messages.ts';
import {
  agentWith,
  eventsOf,
  prose,
  readingReplies,
  readTool,
  requestsOf,
  roundsOf,
  sessionOf,
} from '../compaction/compaction-support.ts';
import { availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService, type TestService } from '../support/service.ts';

const [backend = 'postgres'] = availableBackends();
const WINDOW = 16_000;
const POLICY = { maxContextTokens: WINDOW, prune: { enabled: false } };

async function smallService(environment: Record<string, string> = {}): Promise<TestService> {
  const service = await startTestService({ backend, tools: [readTool], environment });
  service.simulator.setWindow('test', WINDOW);
  return service;
}

/** Reads so many files; returns the run. */
async function readFiles(service: TestService, session: string, count: number) {
  service.simulator.script('test', readingReplies(count, 1_500));
  return service.ended((await service.send(session, 'Read all the files.')).runId);
}

const refused = ({ simulator }: TestService) =>
  simulator.requests.filter(({ refusal, summary }) => !summary && refusal !== undefined);

describe('a summarizer that fails', () => {
  it.each([
    // Prefix and data, each with a reminder.
    { answer: 'empty', calls: 4, code: 'internal' },
    { answer: 'garbage', calls: 4, code: 'internal' },
    { answer: 'cut', calls: 4, code: 'internal' },
    { answer: 'longer', calls: 3, code: 'internal' },
    { answer: '429', calls: 1, code: 'rate_limited' },
  ] as const)('by $answer changes nothing below the window’s end: the run goes on', async ({ answer, calls, code }) => {
    await using service = await smallService();
    service.simulator.summaries(Array.from({ length: calls }, () => answer));
    await service.startWorker();
    const session = await service.createSession(agentWith(POLICY));
    const run = await readFiles(service, session, 12);
    expect(run.status).toBe('completed');
    expect(refused(service)).toEqual([]);
    const [failed, next] = await roundsOf(service, session);
    expect(failed).toMatchObject({ state: 'failed', attempts: calls, error: { code }, summary_message_seq: null });
    expect(next).toMatchObject({ state: 'completed', strategy: 'reactive-overflow', attempts: 1 });
    // Tried again only after the view had grown.
    expect(next?.tokens_before).toBeGreaterThan((failed?.tokens_before ?? 0) + WINDOW * 0.05);
    expect((await eventsOf(service, session, 'compaction:failed')).length).toBe(1);
  });

  it('for ever does not end the run: above the window’s end the middle goes without a summary', async () => {
    await using service = await smallService();
    service.simulator.summaries([], '429');
    await service.startWorker();
    const session = await service.createSession(agentWith(POLICY));
    expect((await readFiles(service, session, 7)).status).toBe('completed');
    const before = requestsOf(service).summaries.length;
    service.simulator.script('test', [{ text: 'Understood.' }]);
    const large = await service.ended((await service.send(session, `Note this: ${prose(3, 7_000)}`)).runId);
    expect(large.status).toBe('completed');
    expect(refused(service)).toEqual([]);
    const last = (await roundsOf(service, session)).at(-1);
    expect(last).toMatchObject({ state: 'completed', strategy: 'middle-removal', attempts: 1 });
    expect(requestsOf(service).summaries.length).toBe(before + 1);
  });

  it('by silence is given up, and the run goes on', async () => {
    await using service = await smallService({ BATON_FIRST_CHUNK_TIMEOUT_MS: '400' });
    service.simulator.summaries(['hang']);
    await service.startWorker();
    const session = await service.createSession(agentWith(POLICY));
    expect((await readFiles(service, session, 12)).status).toBe('completed');
    expect((await roundsOf(service, session))[0]).toMatchObject({ state: 'failed', error: { code: 'timeout' } });
  });

  it('by taking longer than a compaction may is given up, whatever a single call may take', async () => {
    await using service = await smallService();
    service.simulator.summaries(['hang']);
    const slow = { ...service.deps, compactionTimeoutMs: 400 };
    await using _worker = await startJobWorker(slow);
    const session = await service.createSession(agentWith(POLICY));
    expect((await readFiles(service, session, 12)).status).toBe('completed');
    expect((await roundsOf(service, session))[0]).toMatchObject({
      state: 'failed',
      error: { code: 'timeout' },
      attempts: 1,
    });
  });

  it('by an overflow of its own is asked again with less', async () => {
    await using service = await smallService();
    service.simulator.summaries(['overflow']);
    await service.startWorker();
    const session = await service.createSession(agentWith(POLICY));
    expect((await readFiles(service, session, 12)).status).toBe('completed');
    expect((await roundsOf(service, session))[0]).toMatchObject({ state: 'completed', attempts: 2 });
    const [first, second] = requestsOf(service).summaries;
    expect(second?.promptTokens).toBeLessThan((first?.promptTokens ?? 0) / 2);
  });
});

describe('what can never fit', () => {
  it('ends the run at once for a user message larger than the window, and names it', async () => {
    await using service = await smallService();
    await service.startWorker();
    service.simulator.script('test', [{ text: 'never' }]);
    const session = await service.createSession(agentWith(POLICY));
    const run = await service.ended((await service.send(session, prose(1, 20_000))).runId);
    expect(run).toMatchObject({ status: 'incomplete', status_reason: 'context_exhausted' });
    expect(run.error).toMatchObject({ code: 'context_exhausted', message: expect.stringContaining('message no. 1') });
    expect(service.simulator.requests).toEqual([]);
  });

  it('ends the run at once for instructions larger than the window', async () => {
    await using service = await smallService();
    await service.startWorker();
    service.simulator.script('test', [{ text: 'never' }]);
    const session = await service.createSession(agentWith(POLICY, { instructions: prose(2, 20_000) }));
    const run = await service.ended((await service.send(session, 'Go')).runId);
    expect(run).toMatchObject({ status: 'incomplete', status_reason: 'context_exhausted' });
    expect(service.simulator.requests).toEqual([]);
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

  it('makes messages wait, and loses none', async () => {
    await using service = await smallService({ BATON_FIRST_CHUNK_TIMEOUT_MS: '3000' });
    await service.startWorker();
    const { session, runId } = await compacting(service);
    const texts = Array.from({ length: 10 }, (_, at) => `Message ${at} while compacting.`);
    for (const text of texts) expect(await service.send(session, text)).toMatchObject({ queued: true });
    expect((await service.ended(runId)).status).toBe('completed');
    const said = (await listMessages(service.deps.db, session, 0, 1_000)).flatMap(({ role, parts }) =>
      role === 'user' ? parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])) : [],
    );
    for (const text of texts) expect(said.filter((each) => each === text).length).toBe(1);
    expect(requestsOf(service).violations).toEqual([]);
  });

  it('is cancelled with its run: the history stays as it was', async () => {
    await using service = await smallService();
    await service.startWorker();
    const { session, runId } = await compacting(service);
    const before = await listMessages(service.deps.db, session, 0, 1_000);
    await requestCancel(service.deps.db, 'default', runId);
    service.deps.bus.requestCancel(runId);
    expect((await service.ended(runId)).status).toBe('cancelled');
    expect(await sessionOf(service, session)).toMatchObject({
      compacting_since: null,
      compaction_count: 0,
      status: 'idle',
    });
    expect((await roundsOf(service, session)).map(({ state }) => state)).toEqual(['failed']);
    expect(await listMessages(service.deps.db, session, 0, 1_000)).toEqual(before);
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
    expect(await sessionOf(service, session)).toMatchObject({ compacting_since: null });
  });

  it('ends with its run when that is cancelled while no worker has it', async () => {
    await using service = await smallService({ BATON_SHUTDOWN_GRACE_MS: '0' });
    const first = await service.startWorker();
    const { session, runId } = await compacting(service);
    await first[Symbol.asyncDispose]();
    expect(await requestCancel(service.deps.db, 'default', runId)).toMatchObject({ status: 'cancelled' });
    expect(await sessionOf(service, session)).toMatchObject({ compacting_since: null, compaction_count: 0 });
    expect((await roundsOf(service, session)).map(({ state }) => state)).toEqual(['failed']);
  });
});
