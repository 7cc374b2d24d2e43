import { describe, expect, it } from 'vitest';
import { startJobWorker } from '../../src/app/job-worker.ts';
import { serviceActor } from '../../src/commands/audit.ts';
import { resumeSession } from '../../src/commands/resume-session.ts';
import { type SendMessage, sendMessage } from '../../src/commands/send-message.ts';
import type { RunLimits } from '../../src/domain/run/run-limits.ts';
import { requestCancel } from '../../src/store/changes/cancels.ts';
import { listWaiting } from '../../src/store/session/waiting-messages.ts';
import { readEvents } from '../../src/store/transcript/events.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { describing } from '../model/test-models.ts';
import { availableBackends } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService, type TestService } from '../support/service.ts';

const call = (id: string, name = 'look') => ({ id, name, input: { at: id } });

function send(
  { deps }: TestService,
  sessionId: string,
  text: string,
  more: Partial<Pick<SendMessage, 'delivery' | 'limits'>> = {},
) {
  const place = { actor: serviceActor('default'), sessionId, messageId: deps.newId() };
  return sendMessage(deps, { ...place, content: [{ type: 'text', text }], delivery: 'steer', ...more });
}

const resume = ({ deps }: TestService, sessionId: string, limits: RunLimits = {}) =>
  resumeSession(deps, { actor: serviceActor('default'), sessionId, limits });

const lookTool: Tool = {
  name: 'look',
  description: 'Looks.',
  inputSchema: { type: 'object', additionalProperties: true },
  execute: async () => ({ type: 'text' as const, value: 'nothing there' }),
};

const asked = ({ simulator }: TestService): (string | undefined)[] =>
  simulator.requests.map(({ request }) => request?.messages.findLast(({ role }) => role === 'user')?.text);
const violations = ({ simulator }: TestService) => simulator.requests.flatMap((request) => request.violations);

describe.each(availableBackends())('a message to a session at work, on %s', (backend) => {
  it('is in the very next request, with whatever else came meanwhile', async () => {
    await using service = await startTestService({ backend, tools: [lookTool] });
    service.simulator.script('test', ({ index }) =>
      index === 0 ? { toolCalls: [call('c1')], gates: { beforeEnd: 'held' } } : { text: 'Done.' },
    );
    await service.startWorker();
    const session = await service.createSession();
    const { runId } = await send(service, session, 'Go');
    await service.simulator.gate('held').reached;
    for (const text of ['left', 'then right', 'then stop']) await send(service, session, text);
    service.simulator.gate('held').release();
    expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 2 });
    expect(asked(service)[1]).toMatch(/\[1\]: left\s*\[2\]: then right\s*\[3\]: then stop/);
    expect(violations(service)).toEqual([]);
  });

  it('as a followup is heard when the work is done, in a run of its own', async () => {
    await using service = await startTestService({ backend, tools: [lookTool] });
    service.simulator.script('test', ({ index }) =>
      index === 0 ? { toolCalls: [call('c1')], gates: { beforeEnd: 'held' } } : { text: `Answer ${index}.` },
    );
    await service.startWorker();
    const session = await service.createSession();
    const first = await send(service, session, 'Go');
    await service.simulator.gate('held').reached;
    const next = await send(service, session, 'Afterwards this', { delivery: 'followup' });
    service.simulator.gate('held').release();
    expect(await service.ended(first.runId)).toMatchObject({ status: 'completed', step_count: 2 });
    expect(await service.ended(next.runId)).toMatchObject({ status: 'completed', step_count: 1 });
    expect(asked(service)).toEqual(['Go', 'Go', 'Afterwards this']);
  });

  it('as an interrupt stops the work in mid-answer and is answered next', async () => {
    await using service = await startTestService({ backend });
    service.simulator.script('test', ({ index }) =>
      index === 0
        ? { text: 'A long story', chunkChars: 2, gates: { afterChunks: { count: 2, gate: 'middle' } } }
        : { text: 'Instead this.' },
    );
    await service.startWorker();
    const session = await service.createSession();
    const first = await send(service, session, 'Tell me a story');
    await service.simulator.gate('middle').reached;
    const next = await send(service, session, 'No, stop', { delivery: 'interrupt' });
    expect(await service.ended(next.runId)).toMatchObject({ status: 'completed' });
    expect(await service.ended(first.runId)).toMatchObject({ status: 'cancelled' });
    expect(asked(service)).toEqual(['Tell me a story', 'No, stop']);
    expect(violations(service)).toEqual([]);
  });

  it('that is sent while the cancel is under way is answered when it is done', async () => {
    await using service = await startTestService({ backend });
    service.simulator.script('test', ({ index }) =>
      index === 0 ? { text: 'Never ends', gates: { beforeFirstChunk: 'first' } } : { text: 'Here.' },
    );
    await service.startWorker();
    const session = await service.createSession();
    const { runId } = await send(service, session, 'Go');
    await service.simulator.gate('first').reached;
    // This sets the flag without the notice, so that the cancel is not settled before the next message is there.
    await requestCancel(service.deps.db, 'default', runId);
    const next = await send(service, session, 'Rather this');
    service.deps.bus.requestCancel(runId);
    expect(await service.ended(next.runId)).toMatchObject({ status: 'completed' });
    expect(asked(service).at(-1)).toMatch(/Rather this$/);
  });
});

describe.each(availableBackends())('a message to a run that waits for its next attempt, on %s', (backend) => {
  it('is in the request of that attempt, once and in order', async () => {
    await using service = await startTestService({ backend });
    service.simulator.script('test', [{ text: 'Done.' }]);
    const overloaded = { status: 503, headers: { 'retry-after-ms': '1000' } };
    for (let attempt = 0; attempt < 2; attempt += 1) service.simulator.fault('test', overloaded);
    await service.startWorker();
    const session = await service.createSession();
    const { runId } = await send(service, session, 'Go');
    const { db } = service.deps;
    await eventually(
      async () =>
        (await readEvents(db, 'default', session, { afterSeq: 0, limit: 100 })).some(
          ({ type }) => type === 'step:retrying',
        ),
      'the run waits',
    );
    for (const text of ['left', 'then right']) expect(await send(service, session, text)).toMatchObject({ runId });
    expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 1 });
    expect(asked(service).at(-1)).toMatch(/^Go\s*First: left\s*Also: then right$/);
    expect(await listWaiting(db, 'default', session)).toEqual([]);
    expect(violations(service)).toEqual([]);
  });
});

describe.each(availableBackends())('a run that may use only so much, on %s', (backend) => {
  const looping = ({ index }: { index: number }) => ({
    toolCalls: [call(`c${index}`)],
    usage: { input: 400, output: 100 },
  });

  it('ends when its tokens are used up, and goes on when it is resumed', async () => {
    await using service = await startTestService({ backend, tools: [lookTool] });
    service.simulator.script('test', looping);
    await service.startWorker();
    const session = await service.createSession();
    const { runId } = await send(service, session, 'Go', { limits: { maxTokens: 1_200 } });
    expect(await service.ended(runId)).toMatchObject({ status: 'incomplete', status_reason: 'budget', step_count: 3 });
    service.simulator.script('test', [{ text: 'Done.' }]);
    const resumed = await resume(service, session);
    expect(await service.ended(resumed.runId)).toMatchObject({ status: 'completed', step_count: 1 });
    expect(violations(service)).toEqual([]);
  });

  it('ends when it has cost what it may, and goes on when it is resumed', async () => {
    await using service = await startTestService({ backend, tools: [lookTool] });
    service.simulator.script('test', looping);
    const prices = { input: 2, cachedInput: null, cacheWrite: null, output: 8, request: 0 };
    const describeModel = await describing([{ provider: 'simulated', model: 'test', prices }]);
    await using _worker = await startJobWorker({ ...service.deps, describeModel });
    const session = await service.createSession();
    const { runId } = await send(service, session, 'Go', { limits: { maxCostUsd: 0.004 } });
    // 400 tokens at 2 $ and 100 at 8 $ a million: 0.0016 $ a step, so that the third one is the first above the limit.
    const run = await service.ended(runId);
    expect(run).toMatchObject({ status: 'incomplete', status_reason: 'budget', step_count: 3 });
    expect(run.cost_usd).toBeCloseTo(0.0048, 9);
    service.simulator.script('test', [{ text: 'Done.' }]);
    const resumed = await resume(service, session, { maxCostUsd: 0.004 });
    // The cost of the run before does not count against the limit of this one.
    const next = await service.ended(resumed.runId);
    expect(next).toMatchObject({ status: 'completed', step_count: 1 });
    expect(next.cost_usd).toBeLessThan(0.004);
  });

  it('ends at its last step, and goes on when it is resumed', async () => {
    await using service = await startTestService({ backend, tools: [lookTool] });
    service.simulator.script('test', looping);
    await service.startWorker();
    const session = await service.createSession();
    const { runId } = await send(service, session, 'Go', { limits: { maxSteps: 2 } });
    expect(await service.ended(runId)).toMatchObject({
      status: 'incomplete',
      status_reason: 'max_steps',
      step_count: 2,
    });
    const resumed = await resume(service, session, { maxSteps: 1 });
    expect(await service.ended(resumed.runId)).toMatchObject({ status: 'incomplete', status_reason: 'max_steps' });
    service.simulator.script('test', [{ text: 'Done.' }]);
    const last = await resume(service, session, { maxSteps: 1 });
    expect(await service.ended(last.runId)).toMatchObject({ status: 'completed', step_count: 1 });
    expect(violations(service)).toEqual([]);
  });

  it('ends at its deadline, in mid-answer, keeps what was said, and goes on when it is resumed', async () => {
    await using service = await startTestService({ backend });
    service.simulator.script('test', [
      { text: 'The beginning of it', chunkChars: 4, gates: { afterChunks: { count: 2, gate: 'middle' } } },
    ]);
    await service.startWorker();
    const session = await service.createSession();
    const { runId } = await send(service, session, 'Go', { limits: { deadlineMs: 4_000 } });
    await service.simulator.gate('middle').reached;
    expect(await service.ended(runId)).toMatchObject({ status: 'incomplete', status_reason: 'deadline' });
    const aborted = await service.simulator.waitForRequest(({ outcome }) => outcome === 'aborted-by-client');
    expect(aborted.request?.messages.at(-1)?.text).toBe('Go');
    service.simulator.script('test', [{ text: 'The end of it.' }]);
    const resumed = await resume(service, session, { deadlineMs: 60_000 });
    expect(await service.ended(resumed.runId)).toMatchObject({ status: 'completed', step_count: 1 });
    expect(violations(service)).toEqual([]);
  });

  it('does not ask at all when its deadline passed while it waited', async () => {
    await using service = await startTestService({ backend });
    service.simulator.script('test', [{ text: 'Too late.' }]);
    const session = await service.createSession();
    const { runId } = await send(service, session, 'Go', { limits: { deadlineMs: 1 } });
    await service.startWorker();
    expect(await service.ended(runId)).toMatchObject({
      status: 'incomplete',
      status_reason: 'deadline',
      step_count: 0,
    });
    expect(service.simulator.requests).toEqual([]);
  });

  it('ends when it does the same again and again', async () => {
    await using service = await startTestService({ backend, tools: [lookTool] });
    service.simulator.script('test', () => ({ toolCalls: [{ id: 'again', name: 'look', input: { at: 'home' } }] }));
    await service.startWorker();
    const session = await service.createSession();
    const { runId } = await send(service, session, 'Go');
    expect(await service.ended(runId)).toMatchObject({
      status: 'incomplete',
      status_reason: 'doom_loop',
      step_count: 5,
    });
  });
});
