import { Client, type JSONRPCResultResponse, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { eventually } from '../support/eventually.ts';
import { startMcpService } from './mcp-service-fixture.ts';

const REVISION = '2026-07-28';
const TASKS = { extensions: { 'io.modelcontextprotocol/tasks': {} } };
type Started = Awaited<ReturnType<typeof startMcpService>>;
type Key = Started['ann'];

/** A request of the revision, as any client sends it. */
function ask({ url }: Started, key: Key, method: string, params: object, more: RequestInit & { can?: object } = {}) {
  const { can = {}, ...init } = more;
  const name = z.object({ name: z.string().optional(), taskId: z.string().optional() }).parse(params);
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': REVISION,
    'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
    'io.modelcontextprotocol/clientCapabilities': can,
  };
  return fetch(`${url}/mcp`, {
    ...init,
    method: 'POST',
    headers: {
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
      'mcp-protocol-version': REVISION,
      'mcp-method': method,
      ...((name.name ?? name.taskId) !== undefined && { 'mcp-name': name.name ?? name.taskId }),
      ...key.headers,
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { ...params, _meta } }),
  });
}

const askTask = async (started: Started, key: Key, method: string, params: object): Promise<Record<string, unknown>> =>
  ((await (await ask(started, key, method, params, { can: TASKS })).json()) as JSONRPCResultResponse).result;

const errorOf = async (response: Response) => {
  const body = z.object({ error: z.looseObject({ code: z.number() }) }).parse(await response.json());
  return [response.status, body.error.code];
};

describe('the revision 2026-07-28', () => {
  it('is what a client and the server agree on, with progress, sessions and hints for the list', async () => {
    await using started = await startMcpService();
    const { url, ann, simulator } = started;
    simulator.script('researcher', ({ index }) => ({ text: `Found ${index}.` }));
    const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: 'auto' } });
    await client.connect(
      new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit: { headers: ann.headers } }),
    );
    await using _closing = { [Symbol.asyncDispose]: () => client.close() };
    expect(client.getNegotiatedProtocolVersion()).toBe(REVISION);
    expect(client.getServerCapabilities()).toMatchObject({ tools: {}, ...TASKS });
    const listed = await client.listTools();
    expect(listed.tools.map(({ name }) => name)).toEqual(['careful', 'chief', 'researcher', 'continue_task']);
    expect(listed).toMatchObject({ ttlMs: 60_000, cacheScope: 'private' });
    const progress: unknown[] = [];
    const give = (args: object) =>
      client.callTool(
        { name: 'researcher', arguments: { ...args } },
        { onprogress: (told) => void progress.push(told) },
      );
    const first = await give({ task: 'Find it.' });
    const structured = { type: 'text', text: JSON.stringify(first.structuredContent) };
    expect(first.content).toEqual([{ type: 'text', text: 'Found 0.' }, structured]);
    expect(progress).toContainEqual(expect.objectContaining({ message: 'step 1' }));
    const { session } = z.object({ session: z.string() }).parse(first.structuredContent);
    expect((await give({ task: 'And that.', session })).structuredContent).toMatchObject({ session, steps: 1 });
    await expect(client.callTool({ name: 'nobody', arguments: { task: 'x' } })).rejects.toMatchObject({
      code: -32_602,
    });
  });

  it('makes each call of a client that takes tasks a task, for its tenant alone', async () => {
    await using started = await startMcpService();
    const { simulator, ann, ben } = started;
    const gate = simulator.gate('held');
    simulator.script('researcher', ({ index }) => ({
      text: `Found ${index}.`,
      ...(index < 2 && { gates: { beforeFirstChunk: 'held' } }),
    }));
    const call = { name: 'researcher', arguments: { task: 'Find it.' } };
    const [found, stopped] = [
      await askTask(started, ann, 'tools/call', call),
      await askTask(started, ann, 'tools/call', call),
    ];
    expect(found).toMatchObject({ resultType: 'task', status: 'working', ttlMs: null, pollIntervalMs: 1_000 });
    const [taskId, other] = [String(found['taskId']), String(stopped['taskId'])];
    expect(await errorOf(await ask(started, ann, 'tasks/get', { taskId }))).toEqual([400, -32_021]);
    for (const method of ['tasks/get', 'tasks/cancel', 'tasks/update']) {
      const foreign = await ask(started, ben, method, { taskId, inputResponses: {} }, { can: TASKS });
      expect([method, (await errorOf(foreign))[1]]).toEqual([method, -32_602]);
    }
    expect(await askTask(started, ann, 'tasks/cancel', { taskId: other })).toMatchObject({ resultType: 'complete' });
    const ended = (id: string) =>
      eventually(async () => {
        const task = await askTask(started, ann, 'tasks/get', { taskId: id });
        return task['status'] === 'working' ? null : task;
      }, 'the task ends');
    expect(await ended(other)).toMatchObject({ status: 'cancelled' });
    gate.release();
    const task = await ended(taskId);
    expect(task).toMatchObject({
      resultType: 'complete',
      status: 'completed',
      result: { structuredContent: { run: taskId } },
    });
  });

  it('names what a waiting task waits for, and tells a failed run as a result', async () => {
    await using started = await startMcpService();
    const { simulator, ann } = started;
    simulator.script('careful', () => ({ toolCalls: [{ id: 'a', name: 'ask', input: {} }] }));
    simulator.fault('researcher', { status: 401 });
    const begin = async (name: string) =>
      String((await askTask(started, ann, 'tools/call', { name, arguments: { task: 'Go.' } }))['taskId']);
    const until = (taskId: string, isSo: (task: Record<string, unknown>) => boolean) =>
      eventually(async () => {
        const task = await askTask(started, ann, 'tasks/get', { taskId });
        return isSo(task) ? task : null;
      }, 'the task is so');
    const waiting = await until(await begin('careful'), (task) => /waits/.test(String(task['statusMessage'])));
    expect(waiting).toMatchObject({ status: 'working', statusMessage: expect.stringMatching(/ask \(call_/) });
    const failed = await until(await begin('researcher'), (task) => task['status'] !== 'working');
    expect(failed).toMatchObject({ status: 'completed', result: { isError: true } });
  });

  it('takes a closed response as the end of the call', async () => {
    await using started = await startMcpService();
    const { simulator, ann, api } = started;
    simulator.gate('held');
    simulator.script('researcher', () => ({ text: 'Late.', gates: { beforeFirstChunk: 'held' } }));
    const client = new AbortController();
    const call = { name: 'researcher', arguments: { task: 'Find it.' } };
    const asked = ask(started, ann, 'tools/call', call, { signal: client.signal }).catch(String);
    await simulator.waitForRequest(() => true);
    client.abort();
    await asked;
    await eventually(
      async () => (await api.runs.list({ status: 'cancelled' })).runs[0] ?? null,
      'the run is cancelled',
    );
  });

  it('needs its headers, and has no method of the older ones', async () => {
    await using started = await startMcpService();
    const { ann } = started;
    const other = { ...ann, headers: { ...ann.headers, 'mcp-method': 'tools/call' } };
    expect(await errorOf(await ask(started, ann, 'no/such', {}))).toEqual([404, -32_601]);
    expect(await errorOf(await ask(started, ann, 'ping', {}))).toEqual([404, -32_601]);
    expect(await errorOf(await ask(started, other, 'tools/list', {}))).toEqual([400, -32_020]);
  });
});
