import { once } from 'node:events';
import { expect, it } from 'vitest';
import type { Agent } from '../../src/agents/agent.ts';
import { UNFINISHED } from '../../src/domain/transcript/required-action.ts';
import { requestCancel } from '../../src/store/changes/cancels.ts';
import { InputNeeded } from '../../src/tools/input-needed.ts';
import type { Tool, ToolContext } from '../../src/tools/tool.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService, type TestService } from '../support/service.ts';
import { startWorkerProcess } from '../support/worker-process.ts';
import { startQuestionServer } from '../tools/question-server.ts';
import { answer, call, callsOf, send, shownResults, untilWaiting, violations } from './waiting-scenario.ts';

const anything = { type: 'object', additionalProperties: true } as const;
const question = (message: string) => ({ items: [{ key: 'form', message }], state: { asked: message } });

/** A tool that asks for a name and then for an address. `entered`: what each of its rounds was given. */
function createAsker() {
  const entered: ToolContext['reply'][] = [];
  const asker: Tool = {
    name: 'ship',
    description: 'Ships.',
    inputSchema: anything,
    async execute(_input, { reply }) {
      entered.push(reply);
      if (entered.length < 3) throw new InputNeeded(question(entered.length === 1 ? 'Whose name?' : 'Which address?'));
      return `shipped by ${JSON.stringify(reply?.answer)}`;
    },
  };
  const look: Tool = { ...asker, name: 'look', execute: async () => 'seen' };
  return { entered, tools: [asker, look] };
}

async function startAsking(service: TestService) {
  service.simulator.script('test', [{ toolCalls: [call('ship'), call('look')] }, { text: 'Done.' }]);
  const session = await service.createSession();
  const { runId } = await send(service, session, 'Go');
  return { session, runId };
}

it('a tool asks a person twice in one call: each round runs once, and the call beside it ends', async () => {
  const { entered, tools } = createAsker();
  await using service = await startTestService({ backend: 'postgres', tools });
  await service.startWorker();
  const { session, runId } = await startAsking(service);
  const [first] = await untilWaiting(service, runId);
  expect(first).toMatchObject({
    kind: 'input',
    toolName: 'ship',
    questions: [{ key: 'form', message: 'Whose name?' }],
  });
  expect((await callsOf(service, session)).map(({ state }) => state)).toEqual(['awaiting_output', 'completed']);
  await expect(answer(service, runId, first?.id, { kind: 'approve' })).rejects.toThrow('asks a question');
  await answer(service, runId, first?.id, { kind: 'output', output: { name: 'Ada' } });
  const [second] = await untilWaiting(service, runId);
  expect(second?.questions).toEqual([{ key: 'form', message: 'Which address?' }]);
  await answer(service, runId, second?.id, { kind: 'deny', reason: 'secret' });
  expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 2 });
  expect(entered).toEqual([
    undefined,
    { question: question('Whose name?'), answer: { kind: 'output', output: { name: 'Ada' } } },
    { question: question('Which address?'), answer: { kind: 'deny', reason: 'secret' } },
  ]);
  expect(shownResults(service)).toEqual([expect.stringContaining('secret'), 'seen']);
  expect(violations(service)).toEqual([]);
});

it('a run that is cancelled while its tool asks says that the call may have taken effect', async () => {
  const { entered, tools } = createAsker();
  await using service = await startTestService({ backend: 'postgres', tools });
  await service.startWorker();
  const { session, runId } = await startAsking(service);
  await untilWaiting(service, runId);
  await requestCancel(service.deps.db, 'default', runId);
  expect(await service.ended(runId)).toMatchObject({ status: 'cancelled' });
  expect(entered).toHaveLength(1);
  const [asked] = await callsOf(service, session);
  expect(asked).toMatchObject({ state: 'error', output: { type: 'error-text', value: UNFINISHED } });
});

it.each(['call', 'task'] as const)(
  'an MCP server’s %s goes on in another worker once a person has answered',
  async (kind) => {
    await using server = await startQuestionServer(kind);
    await using service = await startTestService({ backend: 'postgres' });
    service.simulator.script('test', [
      { toolCalls: [{ name: 'own__order', input: { item: 'tea' } }] },
      { text: 'Done.' },
    ]);
    const session = await service.createSession({
      mcpServers: { own: { url: server.url, timeoutMs: 60_000, trust: false } },
      tools: [{ mcp: 'own' }],
    });
    await using first = await startWorkerProcess('steps', service.environment);
    const { runId } = await send(service, session, 'Go');
    const [action] = await untilWaiting(service, runId);
    expect(action).toMatchObject({
      kind: 'input',
      questions: [{ message: 'How many?', schema: { required: ['copies'] } }],
    });
    await first.kill('SIGKILL');
    await expect(answer(service, runId, action?.id, { kind: 'output', output: { copies: 'two' } })).rejects.toThrow(
      /does not fit the question: .*copies/,
    );
    await answer(service, runId, action?.id, { kind: 'output', output: { copies: 2 } });
    await using _second = await startWorkerProcess('steps', service.environment);
    expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 2 });
    expect(server.responses).toEqual([{ form: { action: 'accept', content: { copies: 2 } } }]);
    expect(shownResults(service)).toEqual([expect.stringContaining('2 x tea')]);
    expect(violations(service)).toEqual([]);
  },
);

const clerk = (url: string): Partial<Agent> => ({
  name: 'clerk',
  model: 'simulated/clerk',
  mcpServers: { own: { url, timeoutMs: 60_000, trust: false } },
  tools: [{ mcp: 'own' }],
});

it('a task that asks is cancelled at its server with its run, also if the worker dies while it does', async () => {
  await using server = await startQuestionServer('task', { hangs: 1 });
  const environment = { BATON_LEASE_DURATION_MS: '600000' };
  await using service = await startTestService({ backend: 'postgres', environment });
  service.simulator.script('clerk', [{ toolCalls: [call('own__order')] }]);
  const session = await service.createSession(clerk(server.url));
  await using first = await startWorkerProcess('steps', service.environment);
  const { runId } = await send(service, session, 'Go');
  await untilWaiting(service, runId);
  expect(await service.cancel(runId)).toMatchObject({ status: 'cancelling', hasEnded: false });
  await eventually(async () => server.cancels.length === 1, 'the server is asked to cancel the task');
  await first.kill('SIGKILL');
  await using _second = await startWorkerProcess('steps', service.environment);
  expect(await service.ended(runId)).toMatchObject({ status: 'cancelled', step_count: 1 });
  expect(server.cancels).toEqual(['order-1', 'order-1']);
  const [asked] = await callsOf(service, session);
  expect(asked).toMatchObject({ state: 'error', output: { type: 'error-text', value: UNFINISHED } });
});

it('the task of a child that asks is cancelled at its server with the root', async () => {
  await using server = await startQuestionServer('task');
  await using service = await startTestService({ backend: 'postgres', agents: [clerk(server.url)] });
  const { simulator } = service;
  simulator.script('test', [{ toolCalls: [call('clerk', { task: 'Order tea' })] }]);
  simulator.script('clerk', [{ toolCalls: [call('own__order')] }]);
  await service.startWorker();
  const { runId } = await send(service, await service.createSession({ tools: [{ agent: 'clerk' }] }), 'Go');
  const states = async () =>
    (await service.deps.db.selectFrom('runs').select('status').execute()).map((run) => run.status);
  await eventually(
    async () => (await states()).filter((status) => status === 'requires_action').length === 2,
    'both wait',
  );
  await service.cancel(runId);
  await eventually(async () => (await states()).every((status) => status === 'cancelled'), 'both are cancelled');
  expect(server.cancels).toEqual(['order-1']);
});

it.each(['while it asks', 'before its worker hears of that'])(
  'what a call began elsewhere is stopped by a cancel %s',
  async (when) => {
    const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
    const stopped: unknown[] = [];
    const asker: Tool = {
      name: 'ship',
      description: 'Ships.',
      inputSchema: anything,
      resumes: { stop: async (work) => void stopped.push(work) },
      async execute(_input, { outside, signal }) {
        await outside?.note({ parcel: 1 });
        begin();
        await (when === 'while it asks'
          ? once(signal, 'abort')
          : requestCancel(service.deps.db, 'default', await sent));
        throw new InputNeeded(question('Whose name?'));
      },
    };
    await using service = await startTestService({ backend: 'postgres', tools: [asker] });
    const { promise: sent, resolve: send } = Promise.withResolvers<string>();
    await service.startWorker();
    service.simulator.script('test', [{ toolCalls: [call('ship')] }]);
    const session = await service.createSession();
    const { runId } = await service.send(session, 'Go');
    send(runId);
    await begun;
    if (when === 'while it asks') await service.cancel(runId);
    expect(await service.ended(runId)).toMatchObject({ status: 'cancelled', step_count: 1 });
    expect(stopped).toEqual([{ parcel: 1 }]);
    const [asked] = await callsOf(service, session);
    expect(asked).toMatchObject({ state: 'error', output: { type: 'error-text', value: UNFINISHED } });
  },
);
