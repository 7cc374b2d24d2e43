import { describe, expect, it } from 'vitest';
import type { ScriptedToolCall } from '../../simulator/reply.ts';
import type { SimulatedRequest } from '../../simulator/request.ts';
import { type Agent, agentSchema } from '../../src/agents/agent.ts';
import { estimateText } from '../../src/domain/context/meter/tokens.ts';
import type { ToolPart } from '../../src/domain/transcript/message.ts';
import { listMessages } from '../../src/store/transcript/messages.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { createWorkspaceTools } from '../../src/tools/workspace/workspace-tools.ts';
import { anyBackend } from '../support/backends.ts';
import { startTestService, type TestService } from '../support/service.ts';

const WINDOW = 16_000;
const NEEDLE = 'ERROR E4711: the harbor gate did not open';

/** A text far larger than the window. Every line is different, and the needle stands in the middle. */
function dump(name: string): string {
  const lines = Array.from(
    { length: 12_000 },
    (_, line) => `${name} ${line}: checked module ${line * 7} without findings`,
  );
  lines[6_000] = NEEDLE;
  return lines.join('\n');
}

const dumpTool: Tool = {
  name: 'dump',
  description: 'Prints a report.',
  inputSchema: { type: 'object', properties: { name: { type: 'string' } } },
  execute: async (input) => dump((input as { name: string }).name),
};

const call = (name: string, input: unknown): ScriptedToolCall => ({ name, input });

/** A service whose model makes these calls, one batch for each request. A batch may depend on its request. */
async function serviceWith(
  backend: 'redis' | 'postgres',
  batches: readonly ((request: SimulatedRequest) => ScriptedToolCall[])[],
): Promise<{ service: TestService; agent: Partial<Agent> }> {
  const service = await startTestService({ backend, tools: [dumpTool] });
  service.simulator.setWindow('test', WINDOW);
  service.simulator.script('test', (request) => {
    const answered = request.messages.filter(({ role }) => role === 'tool').length;
    const toolCalls = batches[answered]?.(request);
    return toolCalls === undefined ? { text: 'Done.' } : { toolCalls };
  });
  await service.startWorker();
  const { context } = agentSchema.parse({ name: 'a', model: 'simulated/test', context: { maxContextTokens: WINDOW } });
  return { service, agent: { context } };
}

async function completed(service: TestService, session: string): Promise<ToolPart[]> {
  const run = await service.ended((await service.send(session, 'Go')).runId);
  expect(run).toMatchObject({ status: 'completed', error: null });
  expect(service.simulator.requests.flatMap(({ violations }) => violations)).toEqual([]);
  expect(service.simulator.requests.filter(({ refusal }) => refusal !== undefined)).toEqual([]);
  const messages = await listMessages(service.deps.db, 'default', session, { afterSeq: 0, limit: 100 });
  return messages.flatMap(({ parts }) => parts.filter((part) => part.type === 'tool'));
}

const textOf = (part: ToolPart | undefined): string => (part?.output?.type === 'text' ? part.output.value : '');
const rowsOf = ({ deps }: TestService, session: string) =>
  deps.db
    .selectFrom('parts')
    .select(['truncated', 'original_tokens', 'content'])
    .where('session_id', '=', session)
    .where('type', '=', 'tool')
    .orderBy('message_id')
    .orderBy('idx')
    .execute();

describe('what bash prints beyond what a model is shown at once', () => {
  it('is kept, and found by the model', async () => {
    const tools = createWorkspaceTools({ root: '.' }).filter(({ name }) => name === 'bash');
    await using service = await startTestService({ backend: 'postgres', tools });
    service.simulator.script('test', (request) => {
      const answered = request.messages.filter(({ role }) => role === 'tool').length;
      if (answered === 0) return { toolCalls: [call('bash', { command: 'seq 1 100000; exit 3' })] };
      if (answered > 1) return { text: 'Done.' };
      return { toolCalls: [call('read_tool_output', { id: shownId(request), search: '^50000$' })] };
    });
    await service.startWorker();
    const session = await service.createSession();
    const [shown, found] = await completed(service, session);
    expect(textOf(shown).length).toBeLessThanOrEqual(30_000);
    expect(textOf(shown)).toMatch(
      /^1\n2\n.*characters cut out: read them with read_tool_output.*\n100000\n\[exit code 3\]$/s,
    );
    expect(textOf(found)).toContain('>50000\t50000');
  });
});

/** The id that the notice in the newest result names. */
function shownId({ messages }: SimulatedRequest): string {
  const outputs = messages.flatMap(({ toolResults }) => toolResults.map(({ output }) => output));
  return /read_tool_output, id (out_\d+_\d+)\]/.exec(outputs.at(-1) ?? '')?.[1] ?? 'none';
}

describe('a tool result that is larger than the window', () => {
  const backend = anyBackend();
  it('is shown by head and tail, and the model finds the rest of it', async () => {
    const seen: string[] = [];
    const { service, agent } = await serviceWith(backend, [
      () => [call('dump', { name: 'report' })],
      (request) => [call('read_tool_output', { id: seen[seen.push(shownId(request)) - 1], search: 'error e\\d+' })],
      () => [call('read_tool_output', { id: seen[0], offset: 5_001 })],
    ]);
    await using _service = service;
    const session = await service.createSession(agent);
    const [shown, found, page] = await completed(service, session);
    expect(seen).toEqual(['out_2_1']);
    expect(textOf(shown)).toMatch(/^report 0: .*characters cut out: read them .*report 11999: .*$/s);
    expect(textOf(shown)).not.toContain(NEEDLE);
    expect(textOf(found)).toContain(`>6001\t${NEEDLE}`);
    expect(textOf(page)).toMatch(/^5001\treport 5000: .*go on with offset \d+\]$/s);
    const rows = await rowsOf(service, session);
    expect(rows.map(({ truncated }) => truncated)).toEqual([true, false, false]);
    expect(rows[0]?.original_tokens).toBeGreaterThan(5 * WINDOW);
    expect(rows.map(({ content }) => 'outputBlobId' in content)).toEqual([true, false, false]);
    const blob = await service.deps.db.selectFrom('blobs').select(['bytes', 'size_bytes']).executeTakeFirstOrThrow();
    expect(blob.bytes?.toString()).toBe(dump('report'));
    expect(blob.size_bytes).toBe(blob.bytes?.length);
  });

  it('shares the budget of its batch with the other calls, and its blob with what is equal', async () => {
    const names = ['a', 'b', 'c', 'd', 'e', 'f', 'same', 'same'];
    const { service, agent } = await serviceWith(backend, [() => names.map((name) => call('dump', { name }))]);
    await using _service = service;
    const session = await service.createSession(agent);
    const parts = await completed(service, session);
    const tokens = parts.map((part) => estimateText(textOf(part)));
    expect(tokens.reduce((sum, each) => sum + each, 0)).toBeLessThanOrEqual(0.3 * WINDOW);
    expect(Math.min(...tokens)).toBeGreaterThan(200);
    expect(new Set(parts.map(({ outputBlobId }) => outputBlobId)).size).toBe(7);
    const other = await service.createSession(agent);
    await completed(service, other);
    const { db } = service.deps;
    expect(await db.selectFrom('blobs').select('id').execute()).toHaveLength(7);
    const refs = await db.selectFrom('blob_refs').select('session_id').execute();
    expect(Map.groupBy(refs, (ref) => ref.session_id)).toMatchObject(
      new Map([session, other].map((id) => [id, { length: 7 }])),
    );
  });

  it('cannot be read from another session', async () => {
    const { service, agent } = await serviceWith(backend, [() => [call('dump', { name: 'secret' })]]);
    await using _service = service;
    await completed(service, await service.createSession(agent));
    service.simulator.script('test', ({ messages }) =>
      messages.at(-1)?.role === 'tool'
        ? { text: 'Done.' }
        : {
            toolCalls: [
              call('dump', { name: 'x' }),
              call('read_tool_output', { id: 'out_2_1' }),
              call('read_tool_output', { id: 'out_2_9' }),
            ],
          },
    );
    const parts = await completed(service, await service.createSession(agent));
    const reads = parts.filter(({ toolName }) => toolName === 'read_tool_output');
    expect(reads).toHaveLength(2);
    expect(JSON.stringify(reads)).not.toContain('secret');
    expect(reads[1]).toMatchObject({
      state: 'error',
      output: { value: 'This session has nothing under the id "out_2_9".' },
    });
  });
});
