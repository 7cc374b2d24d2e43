import { describe, expect, it } from 'vitest';
import type { Reply, Script } from '../../simulator/reply.ts';
import type { SimulatedRequest } from '../../simulator/request.ts';
import { NOT_RUN_AT_LIMIT } from '../../src/domain/run/settlement.ts';
import { readEvents } from '../../src/store/transcript/events.ts';
import { listMessages } from '../../src/store/transcript/messages.ts';
import { claimRun } from '../../src/store/work/claims.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { appendOne } from '../store/write-one.ts';
import { anyBackend, type Backend } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService, type TestService } from '../support/service.ts';

const NOTICE = '[System notice, not from the user] The work ends here: ';

/** Makes calls until the notice comes, then replies with `last`. */
const untilTold =
  (last: Reply): Script =>
  (request) =>
    isLast(request) ? last : { toolCalls: [{ id: `c${request.index}`, name: 'look', input: { at: request.index } }] };

const isLast = ({ messages }: SimulatedRequest): boolean => messages.at(-1)?.text.includes(NOTICE) === true;

async function start(backend: Backend, last: Reply) {
  const ran: unknown[] = [];
  const look: Tool = {
    name: 'look',
    description: 'Looks.',
    inputSchema: { type: 'object', additionalProperties: true },
    execute: async (input) => {
      ran.push(input);
      return 'nothing there';
    },
  };
  const service = await startTestService({
    backend,
    tools: [look],
    environment: { BATON_SHUTDOWN_GRACE_MS: '0' },
  });
  service.simulator.script('test', untilTold(last));
  return { service, ran };
}

const createSession = (service: TestService, model = 'simulated/test') =>
  service.createSession({ model, limits: { finalAnswer: true, maxSteps: 2 } });

const last = ({ simulator }: TestService) => simulator.requests.filter(({ request }) => request && isLast(request));
const violations = ({ simulator }: TestService) => simulator.requests.flatMap((request) => request.violations);

const transcript = async ({ deps }: TestService, session: string) => {
  const messages = await listMessages(deps.db, 'default', session, { afterSeq: 0, limit: 100 });
  return messages.map(({ role, finishReason, parts }) => ({
    role,
    finishReason,
    text: parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join(''),
  }));
};

const ANSWER = { text: 'I looked twice and found nothing; the cellar is open.' };

describe('a run that a limit ends, with a final answer', () => {
  const backend = anyBackend();
  it.each(['simulated', 'simulated-chat', 'simulated-anthropic'])(
    'is asked once more by %s, with its tools in sight and none to be called',
    async (provider) => {
      const { service, ran } = await start(backend, ANSWER);
      await using _ = service;
      await service.startWorker();
      const session = await createSession(service, `${provider}/test`);
      const run = await service.ended((await service.send(session, 'Look around')).runId);
      expect(run).toMatchObject({ status: 'incomplete', status_reason: 'max_steps', step_count: 3, error: null });
      expect(ran).toHaveLength(2);
      const [request, ...more] = last(service);
      expect(more).toEqual([]);
      expect(request?.request).toMatchObject({ toolChoice: 'none' });
      expect(request?.request?.tools).toEqual(service.simulator.requests[1]?.request?.tools);
      expect(service.simulator.requests[1]?.request?.toolChoice).not.toBe('none');
      expect(violations(service)).toEqual([]);
      // The notice is not in the transcript, which has only messages of the user and the model.
      expect((await transcript(service, session)).map(({ role, text }) => [role, text])).toEqual([
        ['user', 'Look around'],
        ['assistant', ''],
        ['assistant', ''],
        ['assistant', ANSWER.text],
      ]);
    },
  );

  it('is told like any step, and which one it is', async () => {
    const { service } = await start(backend, ANSWER);
    await using _ = service;
    await service.startWorker();
    const session = await createSession(service);
    await service.ended((await service.send(session, 'Look around')).runId);
    const events = await readEvents(service.deps.db, 'default', session, { afterSeq: 0, limit: 100 });
    expect(events.slice(-5).map(({ type }) => type)).toEqual([
      'step:started',
      'llm:response',
      'usage:updated',
      'step:completed',
      'run:incomplete',
    ]);
    expect(events.at(-5)?.data).toMatchObject({ step: 3, finalAnswerFor: 'max_steps' });
  });

  it('runs no call that it asks for all the same, and asks no more', async () => {
    const { service, ran } = await start(backend, { text: 'Let me.', toolCalls: [{ name: 'look', input: {} }] });
    await using _ = service;
    await service.startWorker();
    const session = await createSession(service);
    const run = await service.ended((await service.send(session, 'Look around')).runId);
    expect(run).toMatchObject({ status: 'incomplete', status_reason: 'max_steps', step_count: 3 });
    expect(ran).toHaveLength(2);
    expect(last(service)).toHaveLength(1);
    const messages = await listMessages(service.deps.db, 'default', session, { afterSeq: 0, limit: 100 });
    expect(messages.at(-1)?.parts.at(-1)).toMatchObject({
      type: 'tool',
      state: 'error',
      output: { type: 'error-text', value: NOT_RUN_AT_LIMIT },
    });
    service.simulator.script('test', [{ text: 'Here I am.' }]);
    await service.ended((await service.send(session, 'Go on')).runId);
    expect(violations(service)).toEqual([]);
  });

  it('has time for it although its deadline has passed', async () => {
    const { service } = await start(backend, ANSWER);
    await using _ = service;
    const session = await createSession(service);
    const { runId } = await service.send(session, 'Look around', { deadlineMs: 1 });
    await service.startWorker();
    expect(await service.ended(runId)).toMatchObject({
      status: 'incomplete',
      status_reason: 'deadline',
      step_count: 1,
    });
    expect(last(service)).toHaveLength(service.simulator.requests.length);
    expect((await transcript(service, session)).at(-1)).toMatchObject({ text: ANSWER.text, finishReason: 'stop' });
  });

  it('has tokens for it although its budget is used up', async () => {
    const { service } = await start(backend, ANSWER);
    await using _ = service;
    await service.startWorker();
    const session = await createSession(service);
    const { runId } = await service.send(session, 'Look around', { maxTokens: 1 });
    expect(await service.ended(runId)).toMatchObject({ status: 'incomplete', status_reason: 'budget', step_count: 2 });
    expect(last(service)).toHaveLength(1);
    expect((await transcript(service, session)).at(-1)).toMatchObject({ text: ANSWER.text, finishReason: 'stop' });
  });

  it('does not tell it what came meanwhile: that is answered by a run of its own', async () => {
    const { service } = await start(backend, { ...ANSWER, gates: { beforeEnd: 'held' } });
    await using _ = service;
    await service.startWorker();
    const session = await createSession(service);
    const { runId } = await service.send(session, 'Look around');
    await service.simulator.gate('held').reached;
    const next = await service.send(session, 'Look in the cellar');
    expect(next.runId).not.toBe(runId);
    service.simulator.gate('held').release();
    expect(await service.ended(runId)).toMatchObject({ status: 'incomplete', status_reason: 'max_steps' });
    expect(await service.ended(next.runId)).toMatchObject({ status: 'incomplete', step_count: 3 });
    const [first, second] = last(service).map(({ request }) => JSON.stringify(request?.messages));
    expect(first).not.toContain('cellar');
    expect(second).toContain('Look in the cellar');
    expect(violations(service)).toEqual([]);
  });

  it('gives it once although its worker dies over it, and drops what that had heard', async () => {
    const { service } = await start(backend, ANSWER);
    await using _ = service;
    const { db, newId } = service.deps;
    const session = await createSession(service);
    {
      await using _worker = await service.startWorker();
      service.simulator.script('test', untilTold({ ...ANSWER, gates: { beforeFirstChunk: 'held' } }));
      await service.send(session, 'Look around');
      await service.simulator.gate('held').reached;
    }
    const [job] = await db
      .selectFrom('runs')
      .select(['id as runId', 'pending_no as no', 'pending_dispatch as dispatch'])
      .execute();
    if (job === undefined) throw new Error('there is no run');
    const dead = { claimId: newId(), messageId: newId(), workerId: 'dead', leaseDurationMs: 1 };
    const claim = await claimRun(db, { job: { ...job, kind: 'step' }, ...dead });
    if (claim.outcome !== 'claimed') throw new Error(claim.outcome);
    const fence = { runId: job.runId, epoch: claim.epoch, claimId: dead.claimId };
    await appendOne(db, fence, claim.interruptedMessageId ?? '', [
      { charOffset: 0, partIndex: 1, type: 'text', text: 'I loo' },
    ]);
    service.simulator.script('test', untilTold(ANSWER));
    await service.startWorker();
    expect(await service.ended(job.runId)).toMatchObject({ status: 'incomplete', step_count: 3 });
    expect((await transcript(service, session)).filter(({ text }) => text !== '').map(({ text }) => text)).toEqual([
      'Look around',
      ANSWER.text,
    ]);
  });

  it('is stopped in it by a cancel, and keeps what it had said', async () => {
    const { service } = await start(backend, {
      ...ANSWER,
      chunkChars: 4,
      gates: { afterChunks: { count: 3, gate: 'mid' } },
    });
    await using _ = service;
    await service.startWorker();
    const session = await createSession(service);
    const { runId } = await service.send(session, 'Look around');
    await service.simulator.gate('mid').reached;
    await service.cancel(runId);
    expect(await service.ended(runId)).toMatchObject({ status: 'cancelled', step_count: 2 });
    expect((await transcript(service, session)).at(-1)).toMatchObject({
      text: 'I looked twi',
      finishReason: 'aborted',
    });
  });

  it('ends for its limit where the model cannot give it', async () => {
    const { service } = await start(backend, ANSWER);
    await using _ = service;
    const script = untilTold(ANSWER);
    service.simulator.script('test', async (request) => {
      if (request.index === 1) service.simulator.fault('test', { status: 401 });
      return typeof script === 'function' ? script(request) : {};
    });
    await service.startWorker();
    const session = await createSession(service);
    const run = await service.ended((await service.send(session, 'Look around')).runId);
    expect(run).toMatchObject({ status: 'incomplete', status_reason: 'max_steps', step_count: 2 });
    const events = await readEvents(service.deps.db, 'default', session, { afterSeq: 0, limit: 100 });
    expect(events.find(({ type }) => type === 'llm:error')?.data).toMatchObject({ error: { code: 'auth' } });
  });

  it('tries it again after a failure that passes, but waits no longer than it may take', async () => {
    const { service } = await start(backend, ANSWER);
    await using _ = service;
    const script = untilTold(ANSWER);
    service.simulator.script('test', async (request) => {
      if (request.index === 1) {
        service.simulator.fault('test', { status: 503, headers: { 'retry-after-ms': '5' } });
        service.simulator.fault('test', { status: 503, headers: { 'retry-after-ms': '600000' } });
      }
      return typeof script === 'function' ? script(request) : {};
    });
    await service.startWorker();
    const session = await createSession(service);
    const { runId } = await service.send(session, 'Look around');
    const { pending_at: at, final_answer_until: until } = await eventually(async () => {
      const run = await service.deps.db
        .selectFrom('runs')
        .selectAll()
        .where('id', '=', runId)
        .executeTakeFirstOrThrow();
      return run.attempt === 3 ? run : null;
    }, 'the second attempt has failed');
    expect(last(service).map(({ refusal }) => refusal)).toEqual(['fault', 'fault']);
    expect(at?.getTime()).toBeLessThanOrEqual((until?.getTime() ?? 0) + 1_000);
  });
});
