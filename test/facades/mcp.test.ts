import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { type CallToolResult, CallToolResultSchema, type Progress } from '@modelcontextprotocol/sdk/types.js';
import { describe, expect, it } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { createTestKey } from '../support/keys.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { keyOf, startMcpService } from './mcp-service-fixture.ts';

async function start(settings: Readonly<{ mcpAnswerMs?: number }> = {}) {
  await using stack = new AsyncDisposableStack();
  const service = stack.use(await startMcpService(settings));
  const clients = stack.use(new AsyncDisposableStack());
  const connect = async (key: (typeof service)['ann']): Promise<Client> => {
    const client = new Client({ name: 'test', version: '1' });
    const transport = new StreamableHTTPClientTransport(new URL(`${service.url}/mcp`), {
      requestInit: { headers: key.headers },
    });
    await client.connect(transport as Parameters<Client['connect']>[0]);
    clients.defer(() => client.close());
    return client;
  };
  const owned = stack.move();
  return { ...service, connect, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

const give = async (client: Client, name: string, args: object, options = {}): Promise<CallToolResult> =>
  (await client.callTool({ name, arguments: { ...args } }, undefined, options)) as CallToolResult;

/** The answer, without the ids after it. */
const textOf = ({ content }: CallToolResult): string =>
  content
    .slice(0, 1)
    .map((part) => ('text' in part ? part.text : ''))
    .join('');

describe('the agents as tools of MCP', () => {
  it('are listed, take a task, tell their progress and go on in their session', async () => {
    await using started = await start();
    const { simulator, connect, ann, api } = started;
    simulator.script('researcher', ({ index }) => ({ text: `Found ${index}.` }));
    const client = await connect(ann);
    const { tools } = await client.listTools();
    expect(tools.map(({ name, description }) => [name, description])).toEqual([
      ['careful', 'Gives a task to the agent careful and returns its answer.'],
      ['chief', 'Gives a task to the agent chief and returns its answer.'],
      ['researcher', 'Finds things out.'],
      ['continue_task', expect.stringContaining('still at work')],
    ]);
    const progress: Progress[] = [];
    const first = await give(
      client,
      'researcher',
      { task: 'Find it.' },
      { onprogress: (told: Progress) => void progress.push(told) },
    );
    expect(textOf(first)).toBe('Found 0.');
    // Before anything has happened, so that no client gives up on a run that waits for a worker.
    expect(progress[0]?.message).toMatch(/^run run_\w+ of session ses_/);
    expect(progress).toContainEqual(expect.objectContaining({ message: 'step 1' }));
    expect(first.content[1]).toEqual({ type: 'text', text: JSON.stringify(first.structuredContent) });
    const { session } = first.structuredContent as { session: string };
    const second = await give(client, 'researcher', { task: 'And that.', session });
    expect(second.structuredContent).toMatchObject({ session, status: 'completed', steps: 1 });
    expect((await api.messages(session)).messages.map(({ role }) => role)).toEqual([
      'user',
      'assistant',
      'user',
      'assistant',
    ]);
  });

  it('answer before a client without progress gives up, and lose no work', async () => {
    await using started = await start({ mcpAnswerMs: 50 });
    const { simulator, connect, ann, ben } = started;
    const gate = simulator.gate('held');
    simulator.script('researcher', [{ text: 'Found it.', gates: { beforeFirstChunk: 'held' } }]);
    const client = await connect(ann);
    const first = await give(client, 'researcher', { task: 'Find it.' });
    const { run } = first.structuredContent as { run: string };
    expect(first.isError).toBeUndefined();
    expect(textOf(first)).toContain(`Call the tool continue_task with run ${run}`);
    const again = await give(client, 'continue_task', { run });
    expect(again.structuredContent).toMatchObject({ run, status: 'running' });
    const told: Progress[] = [];
    const waiting = give(client, 'continue_task', { run }, { onprogress: (each: Progress) => void told.push(each) });
    await eventually(async () => told.length > 0, 'the client is told of progress');
    gate.release();
    expect(textOf(await waiting)).toBe('Found it.');
    expect(await give(await connect(ben), 'continue_task', { run })).toMatchObject({ isError: true });
    expect(textOf(await give(client, 'continue_task', { run: 'x' }))).toContain('is no run');
  });

  it('are tasks for a client that asks for them, on any connection and for its tenant alone', async () => {
    await using started = await start();
    const { simulator, connect, ann, ben } = started;
    const gate = simulator.gate('held');
    simulator.script('researcher', ({ index }) => ({
      text: `Found ${index}.`,
      ...(index < 2 && { gates: { beforeFirstChunk: 'held' } }),
    }));
    const begin = async (client: Client): Promise<string> => {
      const stream = client.experimental.tasks.callToolStream(
        { name: 'researcher', arguments: { task: 'Find it.' } },
        undefined,
        { task: {} },
      );
      for await (const message of stream) if (message.type === 'taskCreated') return message.task.taskId;
      throw new Error('no task was made');
    };
    const client = await connect(ann);
    await client.listTools();
    const [found, stopped] = [await begin(client), await begin(client)];
    await client.close();
    const { tasks } = (await connect(ann)).experimental;
    expect(await tasks.getTask(found)).toMatchObject({ taskId: found, status: 'working', ttl: null });
    const { tasks: ofBen } = (await connect(ben)).experimental;
    await expect(ofBen.getTask(found)).rejects.toThrow('there is no task');
    await expect(ofBen.cancelTask(found)).rejects.toThrow('there is no task');
    await tasks.cancelTask(stopped);
    expect(await tasks.getTaskResult(stopped, CallToolResultSchema)).toMatchObject({
      structuredContent: { run: stopped, status: 'cancelled' },
    });
    const result = tasks.getTaskResult(found, CallToolResultSchema);
    gate.release();
    expect(textOf(await result)).toMatch(/^Found [01]\.$/);
    expect(await tasks.getTask(found)).toMatchObject({ status: 'completed' });
    await expect(tasks.cancelTask(stopped)).rejects.toThrow('has ended already: cancelled');
  });

  it('give a repeated call its answer, and no other call the answer of that one', async () => {
    await using fixture = await start();
    const { url, ann, simulator } = fixture;
    const other = await createTestKey(fixture.db, 'ann', ['read', 'write']);
    for (const name of ['researcher', 'careful']) {
      simulator.script(name, ({ index }) => ({ text: `Answer ${index} of ${name}.` }));
    }
    const call = async (name: string, args: object, key = ann): Promise<string> => {
      const params = { name, arguments: args };
      const headers = { accept: 'application/json, text/event-stream', 'content-type': 'application/json' };
      const response = await fetch(`${url}/mcp`, {
        method: 'POST',
        headers: { ...key.headers, ...headers, 'mcp-session-id': 'shared', 'mcp-protocol-version': '2025-11-25' },
        body: JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'tools/call', params }),
      });
      return response.text();
    };
    const runOf = (answer: string): string => {
      expect(answer).toContain('of researcher.');
      return /run_[0-9a-f]{32}/.exec(answer)?.[0] ?? '';
    };
    const run = runOf(await call('researcher', { task: 'Find it.' }));
    expect(runOf(await call('researcher', { task: 'Find it.' }))).toBe(run);
    for (const [name, args] of [
      ['careful', { task: 'Find it.' }],
      ['researcher', { task: 'Find another thing.' }],
    ] as const) {
      const refused = await call(name, args);
      expect(refused).toContain('another call had this session id (mcp-session-id) and request id');
      expect(refused).not.toContain('Answer');
    }
    expect(runOf(await call('researcher', { task: 'Find it.' }, other))).not.toBe(run);
  });

  it('stop when the client cancels the call', async () => {
    await using started = await start();
    const { simulator, connect, ann, api } = started;
    simulator.gate('held');
    simulator.script('researcher', () => ({ text: 'Late.', gates: { beforeFirstChunk: 'held' } }));
    const client = await connect(ann);
    const given = new AbortController();
    const giving = give(client, 'researcher', { task: 'Find it.' }, { signal: given.signal }).catch(String);
    await simulator.waitForRequest(() => true);
    given.abort('enough');
    expect(await giving).toContain('enough');
    const run = await eventually(
      async () => (await api.runs.list({ status: 'cancelled' })).runs[0] ?? null,
      'the run is cancelled',
    );
    expect(run.steps).toBe(0);
  });

  it('say what they wait for, and why they failed or were refused', async () => {
    await using started = await start();
    const { simulator, connect, ann, ben } = started;
    simulator.script('careful', () => ({ toolCalls: [{ id: 'a', name: 'ask', input: {} }] }));
    const client = await connect(ann);
    const waiting = await give(client, 'careful', { task: 'Ask.' });
    expect(waiting).toMatchObject({ structuredContent: { status: 'requires_action' } });
    expect(textOf(waiting)).toMatch(/waits until a person has answered: ask \(call_/);
    const { session } = waiting.structuredContent as { session: string };
    simulator.fault('researcher', { status: 401 });
    const failed = await give(client, 'researcher', { task: 'Find it.' });
    expect(failed.isError).toBe(true);
    expect(textOf(failed)).toContain('The agent failed: ');
    const refusals = [
      [client, 'researcher', {}, 'task'],
      [client, 'researcher', { task: 'x', session }, 'is one of agent careful'],
      [client, 'researcher', { task: 'x', session: 'mine' }, 'is no session: ses_… or key:…'],
      [await connect(ben), 'careful', { task: 'x', session }, 'not_found'],
    ] as const;
    for (const [from, agent, args, says] of refusals) {
      const refused = await give(from, agent, args);
      expect([refused.isError, textOf(refused)]).toEqual([true, expect.stringContaining(says)]);
    }
    await expect(give(client, 'nobody', { task: 'x' })).rejects.toThrow(/-32602: there is no agent "nobody"/);
  });

  it('are tools of another agent', async () => {
    await using started = await start();
    const { simulator, api } = started;
    simulator.script('researcher', () => ({ text: 'It is in the cellar.' }));
    simulator.script('chief', ({ index }) =>
      index === 0
        ? { toolCalls: [{ id: 'a', name: 'agents__researcher', input: { task: 'Where?' } }] }
        : { text: 'In the cellar.' },
    );
    const { id } = await api.sessions.create({ agent: 'chief' });
    expect((await api.ask(id, 'Where is it?')).text).toBe('In the cellar.');
    expect((await api.runs.list()).runs.map(({ status }) => status)).toEqual(['completed', 'completed']);
  });

  it('need a key, and nothing but POST is taken', async () => {
    await using started = await start();
    const { url, ann } = started;
    const statuses = [
      await fetch(`${url}/mcp`, { method: 'POST', body: '{}', headers: { 'content-type': 'application/json' } }),
      await fetch(`${url}/mcp`, { headers: ann.headers }),
      await fetch(`${url}/mcp`, {
        method: 'POST',
        body: 'no json',
        headers: { ...ann.headers, 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      }),
    ].map(({ status }) => status);
    expect(statuses).toEqual([401, 405, 400]);
  });
});

describe('the MCP Inspector', () => {
  // npm ci --prefix test/facades/inspector
  const installed = path.join(
    import.meta.dirname,
    'inspector/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js',
  );

  it.skipIf(!existsSync(installed))('finds nothing wrong with the list of agents, and gives one a task', async () => {
    await using started = await start();
    await using home = await temporaryFolder();
    started.simulator.script('researcher', [{ text: 'Found by inspection.' }]);
    const inspect = async (...args: readonly string[]) => {
      const header = ['--header', `x-api-key: ${keyOf(started.ann)}`];
      const program = [installed, '--cli', `${started.url}/mcp`, '--transport', 'http', ...header, ...args];
      const { stdout } = await promisify(execFile)(process.execPath, program, {
        env: { PATH: process.env['PATH'], HOME: home.path },
      });
      return JSON.parse(stdout) as unknown;
    };
    const names = ['careful', 'chief', 'researcher', 'continue_task'].map((name) => expect.objectContaining({ name }));
    expect(await inspect('--method', 'tools/list', '--strict')).toMatchObject({ tools: names });
    const call = ['--method', 'tools/call', '--tool-name', 'researcher', '--tool-arg', 'task=Find it.'];
    expect(await inspect(...call)).toMatchObject({
      content: [{ type: 'text', text: 'Found by inspection.' }, { type: 'text' }],
      structuredContent: { status: 'completed', steps: 1 },
    });
  });
});
