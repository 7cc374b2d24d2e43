import { generateText } from 'ai';
import { describe, expect, it } from 'vitest';
import { CANCELLED_BEFORE_START } from '../../src/domain/run/settlement.ts';
import { EXPIRED } from '../../src/domain/transcript/required-action.ts';
import { promptFor } from '../../src/model/model-prompt.ts';
import { requestCancel } from '../../src/store/changes/cancels.ts';
import { requestMaintenance } from '../../src/store/changes/maintenance.ts';
import { readContext } from '../../src/store/session/context.ts';
import { findRun } from '../../src/store/session/runs.ts';
import { deleteSession, findSession } from '../../src/store/session/sessions.ts';
import { readEvents } from '../../src/store/transcript/events.ts';
import { availableBackends } from '../support/backends.ts';
import { startTestService, type TestService } from '../support/service.ts';
import {
  answer,
  answerOf,
  call,
  callsOf,
  createWaitingTools,
  keyOf,
  send,
  shownResults,
  untilWaiting,
  violations,
} from './waiting-scenario.ts';

const eventsOf = async ({ deps }: TestService, sessionId: string) =>
  readEvents(deps.db, 'default', sessionId, { afterSeq: 0, limit: 1_000 });

describe.each(availableBackends())('a call that needs an approval on %s', (backend) => {
  it('waits for it while nobody has the run, and runs once; the calls beside it run before', async () => {
    const { tools, ran } = createWaitingTools();
    await using service = await startTestService({ backend, tools });
    const calls = [call('look'), call('deploy', { to: 'prod' }), call('pay', { amount: 5 })];
    service.simulator.script('test', [
      { text: 'On it.', toolCalls: calls, usage: { input: 70, output: 9 } },
      { text: 'Done.' },
    ]);
    await service.startWorker();
    const session = await service.createSession();
    const { runId } = await send(service, session, 'Go');
    const actions = await untilWaiting(service, runId);
    expect(actions).toMatchObject([{ kind: 'approval', toolName: 'deploy', args: { to: 'prod' } }]);
    // Side by side.
    expect(ran.map(({ name }) => name).sort()).toEqual(['look', 'pay']);
    expect((await callsOf(service, session)).map(({ state }) => state)).toEqual([
      'completed',
      'awaiting_approval',
      'completed',
    ]);
    expect(await findRun(service.deps.db, 'default', runId)).toMatchObject({ input_tokens: 70, step_count: 1 });
    expect(await answer(service, runId, actions[0]?.id, { kind: 'approve' })).toMatchObject({ open: 0 });
    expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 2 });
    expect(ran.at(-1)).toEqual({ name: 'deploy', input: { to: 'prod' }, callKey: keyOf(actions[0]) });
    expect(ran).toHaveLength(3);
    expect(shownResults(service)).toEqual(['look did it', 'deploy did it', 'pay did it']);
    expect(violations(service)).toEqual([]);
    const events = await eventsOf(service, session);
    const types = events.map(({ type }) => type);
    expect(types.filter((type) => type === 'run:requires-action' || type === 'step:completed')).toEqual([
      'run:requires-action',
      'step:completed',
      'step:completed',
    ]);
    expect(types.filter((type) => type === 'usage:updated')).toHaveLength(2);
    expect(events.find(({ type }) => type === 'run:requires-action')?.data).toMatchObject({ calls: actions });
    expect(await findSession(service.deps.db, 'default', session)).toMatchObject({ status: 'idle' });
  });

  it('runs with the arguments of the person who approved it, which the model is shown; its own are kept', async () => {
    const { tools, ran } = createWaitingTools();
    await using service = await startTestService({ backend, tools });
    service.simulator.script('test', [{ toolCalls: [call('deploy', { to: 'prod', all: true })] }, { text: 'Done.' }]);
    await service.startWorker();
    const session = await service.createSession();
    const { runId } = await send(service, session, 'Go');
    const [action] = await untilWaiting(service, runId);
    const args = { to: 'staging' };
    await answer(service, runId, action?.id, { kind: 'approve', args });
    expect(await service.ended(runId)).toMatchObject({ status: 'completed' });
    expect(ran).toMatchObject([{ name: 'deploy', input: args }]);
    const shown = service.simulator.requests.at(-1)?.request?.messages.flatMap(({ toolCalls }) => toolCalls);
    expect(shown).toMatchObject([{ name: 'deploy', input: args }]);
    expect(violations(service)).toEqual([]);
    const [part] = await service.deps.db.selectFrom('parts').select('answer').where('type', '=', 'tool').execute();
    expect(part?.answer).toMatchObject({ given: { args }, insteadOf: { to: 'prod', all: true } });
    const answered = (await eventsOf(service, session)).find(({ type }) => type === 'run:answered');
    expect(answered?.data).toMatchObject({ answer: 'approve', args });
    const again = answerOf(service.deps.db, runId, action?.id, { kind: 'approve' });
    await expect(again).rejects.toMatchObject({ code: 'already_answered' });
  });

  it('is denied with the reason that the model reads; a check that fails counts as needed', async () => {
    const { tools, ran } = createWaitingTools();
    await using service = await startTestService({ backend, tools });
    service.simulator.script('test', [
      { toolCalls: [call('pay', { amount: 50 }), call('careless')] },
      { text: 'I see.' },
    ]);
    await service.startWorker();
    const session = await service.createSession();
    const { runId } = await send(service, session, 'Go');
    const [pay, careless] = await untilWaiting(service, runId);
    await answer(service, runId, careless?.id, { kind: 'deny' });
    expect((await callsOf(service, session)).map(({ state }) => state)).toEqual(['awaiting_approval', 'denied']);
    await answer(service, runId, pay?.id, { kind: 'deny', reason: 'Too much money.' });
    expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 2 });
    expect(await callsOf(service, session)).toMatchObject([
      { state: 'denied', output: { type: 'execution-denied', reason: 'Too much money.' } },
      { state: 'denied', output: { type: 'execution-denied' } },
    ]);
    expect(ran).toEqual([]);
    expect(shownResults(service)).toEqual(['Too much money.', expect.stringMatching(/denied/)]);
    expect(violations(service)).toEqual([]);
  });

  it('is valid for Anthropic too, before and after', async () => {
    const { tools } = createWaitingTools();
    await using service = await startTestService({ backend, tools });
    service.simulator.script('test', [
      { reasoning: 'Hm.', text: 'On it.', toolCalls: [call('look'), { ...call('deploy'), id: 'b' }] },
      { text: 'Done.' },
    ]);
    await service.startWorker();
    const session = await service.createSession({ model: 'simulated-anthropic/test' });
    const { runId } = await send(service, session, 'Go');
    const [deploy] = await untilWaiting(service, runId);
    await answer(service, runId, deploy?.id, { kind: 'deny', reason: 'Not on a Friday.' });
    expect(await service.ended(runId)).toMatchObject({ status: 'completed' });
    expect(violations(service)).toEqual([]);
    expect(shownResults(service).at(-1)).toContain('Not on a Friday.');
  });
});

describe.each(availableBackends())('a call of the client’s tool on %s', (backend) => {
  it('takes its output from the client, part by part, and no model is asked before the whole batch is settled', async () => {
    const { tools, ran } = createWaitingTools();
    await using service = await startTestService({ backend, tools });
    service.simulator.script('test', [
      {
        toolCalls: [call('browser', { go: 1 }), call('browser', { go: 2 }), call('browser', { go: 3 }), call('deploy')],
      },
      { text: 'Done.' },
    ]);
    await service.startWorker();
    const session = await service.createSession();
    const { runId } = await send(service, session, 'Go');
    const [first, second, third, deploy] = await untilWaiting(service, runId);
    expect([first, second, third, deploy].map((action) => action?.kind)).toEqual([
      'output',
      'output',
      'output',
      'approval',
    ]);
    await answer(service, runId, second?.id, { kind: 'output', output: { title: 'Two' } });
    await answer(service, runId, deploy?.id, { kind: 'approve' });
    await answer(service, runId, third?.id, { kind: 'output', output: 'No such page.', isError: true });
    expect(await untilWaiting(service, runId)).toEqual([first]);
    expect(service.simulator.requests).toHaveLength(1);
    expect(ran).toEqual([]);
    await answer(service, runId, first?.id, { kind: 'output', output: 'One' });
    expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 2 });
    expect(await callsOf(service, session)).toMatchObject([
      { state: 'completed', output: { type: 'text', value: 'One' } },
      { state: 'completed', output: { type: 'json', value: { title: 'Two' } } },
      { state: 'error', output: { type: 'error-text', value: 'No such page.' } },
      { state: 'completed', output: { type: 'text', value: 'deploy did it' } },
    ]);
    expect(ran).toMatchObject([{ name: 'deploy', callKey: keyOf(deploy) }]);
    expect(violations(service)).toEqual([]);
  });

  it('shows head and tail of an output that is too large, and keeps the whole', async () => {
    const { tools } = createWaitingTools();
    await using service = await startTestService({ backend, tools });
    service.simulator.script('test', [{ toolCalls: [call('browser')] }, { text: 'Done.' }]);
    await service.startWorker();
    const session = await service.createSession();
    const { runId } = await send(service, session, 'Go');
    const [action] = await untilWaiting(service, runId);
    const output = `begin ${'some words of a page '.repeat(20_000)} end`;
    await answer(service, runId, action?.id, { kind: 'output', output });
    expect(await service.ended(runId)).toMatchObject({ status: 'completed' });
    expect(await callsOf(service, session)).toMatchObject([{ outputBlobId: expect.stringMatching(/^blob_/) }]);
    expect(shownResults(service)[0]).toMatch(/^begin .*read_tool_output.* end$/s);
    expect(shownResults(service)[0]?.length).toBeLessThan(output.length / 2);
  });
});

/** A run that waits for `deploy` and for the client's `browser`. */
async function startWaiting(service: TestService, agent: Parameters<TestService['createSession']>[0] = {}) {
  service.simulator.script('test', ({ index }) =>
    index === 0 ? { toolCalls: [call('deploy'), call('browser')] } : { text: `Answer ${index}.` },
  );
  await service.startWorker();
  const session = await service.createSession(agent);
  const { runId } = await send(service, session, 'Go');
  const [deploy, browser] = await untilWaiting(service, runId);
  return { session, runId, deploy, browser };
}

describe.each(availableBackends())('a run that waits on %s', (backend) => {
  it('hears what is sent meanwhile once and in order, in the first request after the answers', async () => {
    const { tools } = createWaitingTools();
    await using service = await startTestService({ backend, tools });
    const { session, runId, deploy, browser } = await startWaiting(service);
    expect(await send(service, session, 'left')).toMatchObject({ queued: true, runId, status: 'requires_action' });
    await answer(service, runId, deploy?.id, { kind: 'approve' });
    await send(service, session, 'right');
    const next = await send(service, session, 'Afterwards this', { delivery: 'followup' });
    await expect(send(service, session, 'No', { delivery: 'reject' })).rejects.toMatchObject({ code: 'session_busy' });
    await answer(service, runId, browser?.id, { kind: 'output', output: 'seen' });
    expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 2 });
    expect(await service.ended(next.runId)).toMatchObject({ status: 'completed' });
    const asked = service.simulator.requests.map(({ request }) =>
      request?.messages.filter(({ role }) => role === 'user').map(({ text }) => text),
    );
    expect(asked).toEqual([
      ['Go'],
      ['Go', 'First: leftAlso: right'],
      ['Go', 'First: leftAlso: right', 'Afterwards this'],
    ]);
    expect(violations(service)).toEqual([]);
  });

  it('is cancelled at once, with an outcome for each of its calls; an output that was given is kept', async () => {
    const { tools, ran } = createWaitingTools();
    await using service = await startTestService({ backend, tools });
    const { session, runId, deploy, browser } = await startWaiting(service);
    await expect(deleteSession(service.deps.db, 'default', session)).rejects.toMatchObject({ code: 'conflict' });
    await answer(service, runId, browser?.id, { kind: 'output', output: 'seen' });
    expect(await requestCancel(service.deps.db, 'default', runId)).toMatchObject({
      status: 'cancelled',
      notify: false,
    });
    expect(await findSession(service.deps.db, 'default', session)).toMatchObject({
      status: 'idle',
      active_run_id: null,
    });
    expect(await callsOf(service, session)).toMatchObject([
      { state: 'error', output: { value: CANCELLED_BEFORE_START } },
      { state: 'completed', output: { value: 'seen' } },
    ]);
    await expect(answer(service, runId, deploy?.id, { kind: 'approve' })).rejects.toMatchObject({
      code: 'conflict',
    });
    const next = await send(service, session, 'Go on');
    expect(await service.ended(next.runId)).toMatchObject({ status: 'completed' });
    expect(shownResults(service)).toEqual([expect.stringContaining(CANCELLED_BEFORE_START), 'seen']);
    expect(violations(service)).toEqual([]);
    expect(ran).toEqual([]);
    const results = (await eventsOf(service, session)).filter(({ type }) => type === 'llm:tool-result');
    expect(results.map(({ data }) => data['success'])).toEqual([false, true]);
  });

  it('gives way to an interrupt', async () => {
    const { tools, ran } = createWaitingTools();
    await using service = await startTestService({ backend, tools });
    const { session, runId } = await startWaiting(service);
    const next = await send(service, session, 'No, stop', { delivery: 'interrupt' });
    expect(next).toMatchObject({ queued: false, status: 'queued' });
    expect(await findRun(service.deps.db, 'default', runId)).toMatchObject({ status: 'cancelled' });
    expect(await service.ended(next.runId)).toMatchObject({ status: 'completed' });
    expect(violations(service)).toEqual([]);
    expect(ran).toEqual([]);
  });

  it('goes on without answers that do not come in time', async () => {
    const { tools, ran } = createWaitingTools();
    await using service = await startTestService({ backend, tools });
    const { session, runId, deploy } = await startWaiting(service, { limits: { approvalTimeoutMs: 100 } });
    expect(await service.ended(runId)).toMatchObject({ status: 'completed', approval_expires_at: null });
    expect(await callsOf(service, session)).toMatchObject([
      { state: 'denied', output: { type: 'execution-denied', reason: EXPIRED } },
      { state: 'denied', output: { type: 'execution-denied', reason: EXPIRED } },
    ]);
    expect(ran).toEqual([]);
    expect(shownResults(service)).toEqual([EXPIRED, EXPIRED]);
    expect(service.logged).toContainEqual(expect.objectContaining({ event: 'run_wait_expired', runId, calls: 2 }));
    await expect(answer(service, runId, deploy?.id, { kind: 'approve' })).rejects.toMatchObject({
      code: 'already_answered',
    });
  });

  it('ends at its deadline: nothing runs any more, and what waits gets a run of its own', async () => {
    const { tools, ran } = createWaitingTools();
    await using service = await startTestService({ backend, tools });
    const { session, runId, deploy } = await startWaiting(service, { limits: { deadlineMs: 6_000 } });
    await answer(service, runId, deploy?.id, { kind: 'approve' });
    await send(service, session, 'And now?');
    expect(await service.ended(runId)).toMatchObject({
      status: 'incomplete',
      status_reason: 'deadline',
      step_count: 1,
    });
    expect(ran).toEqual([]);
    expect(await callsOf(service, session)).toMatchObject([
      { state: 'error', output: { value: CANCELLED_BEFORE_START } },
      { state: 'denied' },
    ]);
    await expect.poll(() => service.simulator.requests.length).toBe(2);
    expect(violations(service)).toEqual([]);
  });

  it('is compacted when it goes on, where somebody asks for that meanwhile', async () => {
    const { tools } = createWaitingTools();
    await using service = await startTestService({ backend, tools });
    const { session, runId, deploy, browser } = await startWaiting(service);
    const request = { tenantId: 'default', sessionId: session, kind: 'prune', runId: service.deps.newId() } as const;
    expect(await requestMaintenance(service.deps.db, request)).toMatchObject({ runId, queued: true, job: null });
    expect(await untilWaiting(service, runId)).toHaveLength(2);
    await answer(service, runId, deploy?.id, { kind: 'approve' });
    await answer(service, runId, browser?.id, { kind: 'output', output: 'seen' });
    expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 2 });
    expect((await eventsOf(service, session)).map(({ type }) => type)).toContain('prune:complete');
  });

  it('survives the end of every process and an emptied queue', async () => {
    const { tools, ran } = createWaitingTools();
    await using service = await startTestService({ backend, tools });
    service.simulator.script('test', [{ toolCalls: [call('deploy')] }, { text: 'Done.' }]);
    const session = await service.createSession();
    await using first = await service.startWorker();
    const { runId } = await send(service, session, 'Go');
    const [deploy] = await untilWaiting(service, runId);
    await first[Symbol.asyncDispose]();
    // Its job is never added: what adds it is the row alone.
    const answered = await answerOf(service.deps.db, runId, deploy?.id, { kind: 'approve' });
    expect(await service.deps.jobs.stateOf(answered.job ?? { runId, kind: 'step', no: 0, dispatch: 0 })).toBe(
      'missing',
    );
    await service.startWorker();
    expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 2 });
    expect(ran).toMatchObject([{ name: 'deploy', callKey: keyOf(deploy) }]);
  });
});

describe('the view of a run that waits', () => {
  it.each(['simulated/test', 'simulated-chat/test', 'simulated-anthropic/test'])('is valid for %s', async (model) => {
    const { tools } = createWaitingTools();
    await using service = await startTestService({ backend: 'postgres', tools });
    const { session } = await startWaiting(service, { model });
    const { view } = await readContext(service.deps.db, 'default', session);
    const resolved = service.deps.models(model);
    const providerOptions = resolved.providerOptions(session);
    await generateText({
      model: resolved.model,
      ...promptFor(resolved, model, { instructions: '', view }),
      maxRetries: 0,
      providerOptions,
    });
    expect(service.simulator.requests).toHaveLength(2);
    expect(violations(service)).toEqual([]);
    expect(shownResults(service)).toEqual([expect.stringMatching(/approval/), expect.stringMatching(/client/)]);
  });
});
