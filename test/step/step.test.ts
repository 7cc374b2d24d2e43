import { describe, expect, it } from 'vitest';
import { parseCallId } from '../../src/domain/ids.ts';
import type { Part } from '../../src/domain/transcript/message.ts';
import { readEvents } from '../../src/store/transcript/events.ts';
import { listMessages } from '../../src/store/transcript/messages.ts';
import type { ServerTool, Tool } from '../../src/tools/tool.ts';
import { anyBackend } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { startTestService, type TestService } from '../support/service.ts';

const anything = { type: 'object', additionalProperties: true } as const;

function tool(name: string, execute: ServerTool['execute'], traits: Partial<Tool> = {}): Tool {
  return { name, description: name, inputSchema: anything, execute, ...traits };
}

async function transcript(service: TestService, sessionId: string) {
  return listMessages(service.deps.db, 'default', sessionId, { afterSeq: 0, limit: 1_000 });
}

function callsOf(parts: readonly Part[]) {
  return parts.filter((part) => part.type === 'tool');
}

async function eventTypes(service: TestService, sessionId: string): Promise<string[]> {
  return (await readEvents(service.deps.db, 'default', sessionId, { afterSeq: 0, limit: 1_000 })).map(
    (event) => event.type,
  );
}

describe('a run', () => {
  const backend = anyBackend();
  it('answers in one step: text, reasoning with its metadata, usage of the step', async () => {
    await using service = await startTestService({ backend });
    service.simulator.script('test', [
      { reasoning: 'I think.', text: 'Hello!', usage: { input: 100, cacheRead: 40, output: 20, reasoning: 5 } },
    ]);
    await service.startWorker();
    const session = await service.createSession();
    const { runId } = await service.send(session, 'Hi');
    const run = await service.ended(runId);
    expect(run).toMatchObject({ status: 'completed', step_count: 1, input_tokens: 100, cache_read_tokens: 40 });
    const [user, assistant] = await transcript(service, session);
    expect(user).toMatchObject({ seq: 1, role: 'user', parts: [{ type: 'text', text: 'Hi' }] });
    expect(assistant).toMatchObject({
      seq: 2,
      role: 'assistant',
      finishReason: 'stop',
      model: 'simulated/test',
      usage: { inputTokens: 100, outputTokens: 20, reasoningTokens: 5, cacheReadTokens: 40, totalTokens: 120 },
    });
    expect(assistant?.parts.map((part) => part.type)).toEqual(['step-start', 'reasoning', 'text']);
    expect(assistant?.parts[1]).toMatchObject({
      text: 'I think.',
      providerMetadata: { openai: { reasoningEncryptedContent: expect.any(String) } },
    });
  });

  it('runs the calls of one response, commits each outcome, and shows them to the model in the next request', async () => {
    await using service = await startTestService({
      backend,
      tools: [tool('add', async (input) => input), tool('broken', () => Promise.reject(new Error('no luck')))],
    });
    service.simulator.script('test', [
      {
        text: 'Working.',
        toolCalls: [
          { id: 'call_a', name: 'add', input: { a: 1 } },
          { id: 'call_b', name: 'broken', input: {} },
        ],
      },
      { text: 'Done.' },
    ]);
    await service.startWorker();
    const session = await service.createSession();
    const run = await service.ended((await service.send(session, 'Go')).runId);
    expect(run).toMatchObject({ status: 'completed', step_count: 2 });
    const messages = await transcript(service, session);
    expect(callsOf(messages[1]?.parts ?? [])).toMatchObject([
      { toolName: 'add', state: 'completed', input: { a: 1 }, output: { type: 'json', value: { a: 1 } } },
      { toolName: 'broken', state: 'error', output: { type: 'error-text', value: 'no luck' } },
    ]);
    const second = service.simulator.requests[1];
    expect(second?.violations).toEqual([]);
    expect(second?.request?.messages.flatMap((message) => message.toolResults).length).toBe(2);
  });

  it('makes the response durable before a tool starts, and running before its side effect', async () => {
    const seen: unknown[] = [];
    let service: TestService | undefined;
    const spy = tool('spy', async (_input, context) => {
      const { db } = service?.deps ?? {};
      const row = await db
        ?.selectFrom('parts')
        .innerJoin('messages', 'messages.id', 'parts.message_id')
        .select(['parts.state', 'parts.message_id', 'parts.idx', 'messages.finish_reason'])
        .where('tool_name', '=', 'spy')
        .executeTakeFirstOrThrow();
      seen.push(row, parseCallId(context.callKey));
      return 'ok';
    });
    service = await startTestService({ backend, tools: [spy] });
    await using _ = service;
    service.simulator.script('test', [{ toolCalls: [{ name: 'spy', input: {} }] }, { text: 'Done.' }]);
    await service.startWorker();
    await service.ended((await service.send(await service.createSession(), 'Go')).runId);
    expect(seen[0]).toMatchObject({ state: 'running', finish_reason: 'tool-calls', message_id: expect.any(String) });
    const { message_id: messageId, idx: index } = seen[0] as Record<string, unknown>;
    expect(seen[1]).toEqual({ messageId, index });
  });

  it('goes on when a provider says stop although it called tools', async () => {
    await using service = await startTestService({ backend, tools: [tool('look', async () => 'seen')] });
    service.simulator.script('test', [
      { toolCalls: [{ name: 'look', input: {} }], finishReason: 'stop' },
      { text: 'Done.' },
    ]);
    await service.startWorker();
    const session = await service.createSession({ model: 'simulated-chat/test' });
    const run = await service.ended((await service.send(session, 'Go')).runId);
    expect(run).toMatchObject({ status: 'completed', step_count: 2 });
    expect(service.simulator.requests.map((request) => request.violations)).toEqual([[], []]);
  });

  it('ends as incomplete at the limit of steps, and a message that waited gets a run of its own', async () => {
    await using service = await startTestService({ backend, tools: [tool('look', async () => 'seen')] });
    const gate = service.simulator.gate('first');
    service.simulator.script('test', [
      { toolCalls: [{ name: 'look', input: {} }], gates: { beforeEnd: 'first' } },
      { text: 'The second run answers.' },
    ]);
    await service.startWorker();
    const session = await service.createSession();
    const first = await service.send(session, 'Go', { maxSteps: 1 });
    await gate.reached;
    const second = await service.send(session, 'And this?');
    expect(second).toMatchObject({ queued: true, position: 1, runId: first.runId });
    gate.release();
    expect(await service.ended(first.runId)).toMatchObject({ status: 'incomplete', status_reason: 'max_steps' });
    const last = await eventually(
      async () => (await transcript(service, session)).find((message) => message.finishReason === 'stop') ?? null,
      'the second run answers',
    );
    expect(last.runId).not.toBe(first.runId);
  });

  it('takes a message that was sent while a step ran into the very next request', async () => {
    await using service = await startTestService({ backend, tools: [tool('look', async () => 'seen')] });
    const gate = service.simulator.gate('first');
    service.simulator.script('test', [
      { toolCalls: [{ name: 'look', input: {} }], gates: { beforeEnd: 'first' } },
      { text: 'Heard.' },
    ]);
    await service.startWorker();
    const session = await service.createSession();
    const { runId } = await service.send(session, 'Go');
    await gate.reached;
    await service.send(session, 'Mind the gap');
    gate.release();
    expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 2 });
    const texts = service.simulator.requests[1]?.request?.messages.map((message) => message.text) ?? [];
    expect(texts.at(-1)).toContain('Mind the gap');
    expect((await transcript(service, session)).map((message) => message.role)).toEqual([
      'user',
      'assistant',
      'user',
      'assistant',
    ]);
  });

  it('continues the run for a message that came while the last answer was written', async () => {
    await using service = await startTestService({ backend });
    const gate = service.simulator.gate('last');
    service.simulator.script('test', [
      { text: 'First answer.', gates: { beforeEnd: 'last' } },
      { text: 'Second answer.' },
    ]);
    await service.startWorker();
    const session = await service.createSession();
    const { runId } = await service.send(session, 'One');
    await gate.reached;
    await service.send(session, 'Two');
    gate.release();
    expect(await service.ended(runId)).toMatchObject({ status: 'completed', step_count: 2 });
    expect((await transcript(service, session)).length).toBe(4);
  });

  it('numbers the events of a session without gaps and in the order of the flow', async () => {
    await using service = await startTestService({ backend, tools: [tool('look', async () => 'seen')] });
    service.simulator.script('test', [{ toolCalls: [{ name: 'look', input: {} }] }, { text: 'Done.' }]);
    await service.startWorker();
    const session = await service.createSession();
    await service.ended((await service.send(session, 'Go')).runId);
    const events = await readEvents(service.deps.db, 'default', session, { afterSeq: 0, limit: 1_000 });
    expect(events.map((event) => event.seq)).toEqual(events.map((_, index) => index + 1));
    expect(await eventTypes(service, session)).toEqual([
      'run:queued',
      'message:dequeued',
      'message:created',
      'run:started',
      'step:started',
      'llm:response',
      'llm:tool-call',
      'llm:tool-result',
      'usage:updated',
      'step:completed',
      'step:started',
      'llm:response',
      'usage:updated',
      'step:completed',
      'run:completed',
    ]);
  });

  it('has streamed text in Postgres while the answer still streams, and folds it at the end', async () => {
    await using service = await startTestService({ backend });
    const gate = service.simulator.gate('middle');
    service.simulator.script('test', [
      { text: 'The first half. The second half.', chunkChars: 4, gates: { afterChunks: { count: 4, gate: 'middle' } } },
    ]);
    await service.startWorker();
    const session = await service.createSession();
    const { runId } = await service.send(session, 'Go');
    await gate.reached;
    const chunks = () => service.deps.db.selectFrom('part_chunks').selectAll().orderBy('char_offset').execute();
    const streamed = await eventually(async () => {
      const text = (await chunks()).map((chunk) => chunk.chunk).join('');
      return text === 'The first half. ' ? text : null;
    }, 'the first half is durable');
    expect(streamed).toBe('The first half. ');
    gate.release();
    await service.ended(runId);
    expect(await chunks()).toEqual([]);
    expect((await transcript(service, session))[1]?.parts).toMatchObject([
      { type: 'step-start' },
      { type: 'text', text: 'The first half. The second half.' },
    ]);
  });

  it('tries a rate-limited call again as a delayed step, visible as an event', async () => {
    await using service = await startTestService({ backend });
    service.simulator.fault('test', { kind: 'rate-limit', retryAfterMs: 10 });
    service.simulator.script('test', [{ text: 'At last.' }]);
    await service.startWorker();
    const session = await service.createSession();
    const run = await service.ended((await service.send(session, 'Go')).runId);
    expect(run).toMatchObject({ status: 'completed', step_count: 1 });
    expect(await eventTypes(service, session)).toEqual(expect.arrayContaining(['llm:error', 'step:retrying']));
    expect((await transcript(service, session)).length).toBe(2);
  });

  it('drops an answer that broke off before any tool started and asks again: the tool runs once', async () => {
    const ran: string[] = [];
    const count = tool('count', async (_input, { callKey }) => {
      ran.push(callKey);
      return 'counted';
    });
    await using service = await startTestService({ backend, tools: [count] });
    service.simulator.fault('test', { kind: 'cut', afterChunks: 3 });
    service.simulator.script('test', [
      { text: 'A text of several chunks.', chunkChars: 4, toolCalls: [{ name: 'count', input: {} }] },
      { text: 'Done.' },
    ]);
    await service.startWorker();
    const session = await service.createSession();
    const run = await service.ended((await service.send(session, 'Go')).runId);
    expect(run.status).toBe('completed');
    expect(ran.length).toBe(1);
    expect((await transcript(service, session)).map((message) => message.finishReason)).toEqual([
      null,
      'tool-calls',
      'stop',
    ]);
  });

  it('settles calls that a cut-off response asked for without running them, and goes on', async () => {
    const ran: string[] = [];
    await using service = await startTestService({
      backend,
      tools: [tool('count', async () => void ran.push('ran'))],
    });
    service.simulator.script('test', [
      { toolCalls: [{ name: 'count', input: {} }], finishReason: 'length' },
      { text: 'Done.' },
    ]);
    await service.startWorker();
    const session = await service.createSession({ model: 'simulated-chat/test' });
    const run = await service.ended((await service.send(session, 'Go')).runId);
    expect(run.status).toBe('completed');
    expect(ran).toEqual([]);
    expect(callsOf((await transcript(service, session))[1]?.parts ?? [])).toMatchObject([{ state: 'error' }]);
  });

  it('tells the model about a tool that does not exist or an input that is not valid', async () => {
    await using service = await startTestService({ backend, tools: [tool('real', async () => 'ok')] });
    service.simulator.script('test', [{ toolCalls: [{ name: 'imaginary', input: {} }] }, { text: 'Done.' }]);
    await service.startWorker();
    const session = await service.createSession();
    const run = await service.ended((await service.send(session, 'Go')).runId);
    expect(run).toMatchObject({ status: 'completed', step_count: 2 });
    expect(callsOf((await transcript(service, session))[1]?.parts ?? [])).toMatchObject([
      { toolName: 'imaginary', state: 'error' },
    ]);
    expect(service.simulator.requests[1]?.violations).toEqual([]);
  });
});
