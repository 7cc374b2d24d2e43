import { createOpenAI } from '@ai-sdk/openai';
import { generateText, jsonSchema, Output, stepCountIs, streamText, tool } from 'ai';
import OpenAI from 'openai';
import { zodTextFormat } from 'openai/helpers/zod';
import type { FunctionTool, ResponseStreamEvent } from 'openai/resources/responses/responses';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { Reply } from '../../simulator/reply.ts';
import { createResponseFrames } from '../../src/facades/openai/response-frames.ts';
import { createWaitingTools } from '../flow/waiting-scenario.ts';
import { eventually } from '../support/eventually.ts';
import { createTestKey } from '../support/keys.ts';
import { type ChatService, startChatService } from './ui-chat-fixture.ts';

const Price = z.object({ total: z.number(), currency: z.string() });
const VALUE = { total: 12, currency: 'EUR' };
const { tools } = createWaitingTools();
const AGENTS = Array.from({ length: 30 }, (_, n) => ({ name: `model-${n}`, tools: ['test'] }));
const WEATHER: FunctionTool = {
  type: 'function',
  name: 'weather',
  description: 'Tells the weather.',
  parameters: { type: 'object', properties: { city: { type: 'string' } } },
  strict: false,
};
const LONG: Reply = { text: 'One two three four.', chunkChars: 3 };

let started: ChatService;
let client: OpenAI;
let taken = 0;

function nextModel(replies: Parameters<ChatService['service']['simulator']['script']>[1]): string {
  const model = `model-${taken++}`;
  started.service.simulator.script(model, replies);
  return model;
}

const sessionsOf = (model: string) =>
  started.service.deps.db.selectFrom('sessions').selectAll().where('agent_name', '=', model).execute();

async function eventsOf(stream: AsyncIterable<ResponseStreamEvent>): Promise<ResponseStreamEvent[]> {
  return Array.fromAsync(stream);
}

const textOf = (events: readonly ResponseStreamEvent[]): string =>
  events.flatMap((event) => (event.type === 'response.output_text.delta' ? [event.delta] : [])).join('');

beforeAll(async () => {
  started = await startChatService(AGENTS, tools);
  client = new OpenAI({ baseURL: `${started.url}/v1`, apiKey: 'none', maxRetries: 0 });
});
afterAll(() => started[Symbol.asyncDispose]());

describe('the openai client', () => {
  it('gets a response, and the next one of the same session by its id', async () => {
    const model = nextModel([{ text: 'Hello!', usage: { input: 20, output: 5 } }, { text: 'Again.' }]);
    const first = await client.responses.create({ model, input: 'Hi', instructions: 'Be short.' });
    expect(first).toMatchObject({ object: 'response', status: 'completed', output_text: 'Hello!', model, error: null });
    expect(first.usage).toMatchObject({ input_tokens: 20, output_tokens: 5, total_tokens: 25 });
    const second = await client.responses.create({ model, input: 'And?', previous_response_id: first.id });
    expect(second.output_text).toBe('Again.');
    expect(await sessionsOf(model)).toHaveLength(1);
    // The request is not stored, so its fields are told once.
    expect(first.instructions).toBe('Be short.');
    expect(await client.responses.retrieve(first.id)).toEqual({ ...first, instructions: null });
    await expect(
      client.responses.create({ model, input: 'Back.', previous_response_id: first.id }),
    ).rejects.toMatchObject({ status: 409, message: expect.stringContaining('fork the session') });
  });

  it('is told the fields of its request again, in the response and in every event that has it', async () => {
    const model = nextModel([{ text: 'Hello!' }, { text: 'Hello!' }]);
    const parameters = { type: 'object', properties: {} };
    const asked = {
      instructions: 'Be short.',
      tools: [{ type: 'function' as const, name: 'weather', description: null, parameters, strict: false }],
      tool_choice: 'auto' as const,
      metadata: { order: '7' },
      temperature: 0.5,
      top_p: 0.9,
      max_output_tokens: 500,
      reasoning: { effort: 'low' as const, summary: null },
      text: { format: { type: 'text' as const }, verbosity: 'medium' as const },
      truncation: 'auto' as const,
      parallel_tool_calls: true,
      user: 'ada',
      safety_identifier: 'ada-1',
      prompt_cache_key: 'cache',
      background: false,
    };
    const told = await client.responses.create({ model, input: 'Hi', ...asked });
    expect(told).toMatchObject({ ...asked, previous_response_id: null, service_tier: 'default', presence_penalty: 0 });
    expect(told.completed_at).toBeGreaterThanOrEqual(told.created_at);
    const next = { model, input: 'And?', previous_response_id: told.id, ...asked };
    const events = await eventsOf(await client.responses.create({ ...next, stream: true }));
    const bodies = events.flatMap((event) => ('response' in event ? [event.response] : []));
    expect(bodies).toHaveLength(3);
    for (const body of bodies) expect(body).toMatchObject({ ...asked, previous_response_id: told.id });
  });

  it('names a conversation, whose items stay with the service', async () => {
    const model = nextModel([{ text: 'Hello!' }, { text: 'Again.' }]);
    const first = await client.responses.create({ model, input: 'Hi', conversation: 'order-7' });
    await client.responses.create({ model, input: 'And?', conversation: { id: first.conversation?.id ?? '' } });
    expect(await sessionsOf(model)).toHaveLength(1);
  });

  it('recognizes the conversation that it sends whole, and imports one that is unknown', async () => {
    const model = nextModel([{ text: 'Hello!' }, { text: 'Again.' }, { text: 'Imported.' }]);
    const hi = { role: 'user' as const, content: 'Hi' };
    const { output } = await client.responses.create({ model, input: [hi] });
    const text = output.flatMap((item) => (item.type === 'message' ? [{ ...item, id: 'msg_elsewhere' }] : []));
    await client.responses.create({ model, input: [hi, ...text, { role: 'user', content: 'And?' }] });
    expect(await sessionsOf(model)).toHaveLength(1);
    const other = { role: 'assistant' as const, content: 'Not mine.' };
    await client.responses.create({ model, input: [hi, other, { role: 'user', content: 'And?' }] });
    expect(await sessionsOf(model)).toHaveLength(2);
  });

  it('streams events that its own helper accepts, with calls of its own tools', async () => {
    const call = { name: 'weather', input: { city: 'Rome' } };
    const model = nextModel([
      { text: 'Let me see.', toolCalls: [call], usage: { input: 20, output: 5 } },
      { text: 'Sunny.', usage: { input: 30, output: 6 } },
    ]);
    const stream = client.responses.stream({ model, input: 'Weather?', tools: [WEATHER] });
    const first = await stream.finalResponse();
    expect(first.output.map(({ type }) => type)).toEqual(['message', 'function_call']);
    const [asked] = first.output.filter((item) => item.type === 'function_call');
    expect(asked).toMatchObject({ name: 'weather', arguments: JSON.stringify(call.input), status: 'completed' });
    const output = { type: 'function_call_output' as const, call_id: asked?.call_id ?? '', output: 'sun' };
    const next = { model, input: [output], tools: [WEATHER], previous_response_id: first.id };
    const second = await client.responses.create(next);
    expect(second).toMatchObject({ status: 'completed', output_text: 'Sunny.' });
    expect([first, second].map(({ usage }) => usage?.total_tokens)).toEqual([25, 36]);
    expect([first, second].map(({ completed_at: at }) => at)).toEqual([expect.any(Number), expect.any(Number)]);
    expect(second.id).not.toBe(first.id);
    expect((await client.responses.create(next)).id).toBe(second.id);
    expect((await client.responses.retrieve(first.id)).output).toMatchObject([
      { type: 'message', content: [{ text: 'Let me see.' }] },
      { type: 'function_call', call_id: asked?.call_id },
    ]);
    expect((await client.responses.retrieve(second.id)).output_text).toBe('Sunny.');
  });

  it('parses the result that its schema asks for', async () => {
    const model = nextModel([{ text: JSON.stringify(VALUE) }]);
    const text = { format: zodTextFormat(Price, 'price') };
    expect((await client.responses.parse({ model, input: 'How much?', text })).output_parsed).toEqual(VALUE);
  });

  it('goes on from every event of a stream, also long after its end, without a loss or a repetition', async () => {
    const model = nextModel([LONG]);
    const all = await eventsOf(await client.responses.create({ model, input: 'Count', stream: true }));
    const numbers = all.map(({ sequence_number: number }) => number);
    expect(numbers).toEqual(numbers.toSorted((a, b) => a - b));
    expect(new Set(numbers).size).toBe(numbers.length);
    const [created] = all;
    if (created?.type !== 'response.created') throw new Error('nothing was created');
    for (const [at, { sequence_number: after }] of all.entries()) {
      const rest = await client.responses.retrieve(created.response.id, { stream: true, starting_after: after });
      const more = await eventsOf(rest);
      expect(textOf(all.slice(0, at + 1)) + textOf(more), `after ${after}`).toBe(LONG.text);
      expect(more.at(-1)).toEqual(at === all.length - 1 ? undefined : all.at(-1));
    }
  });

  it('goes on in the middle of a text that a replay tells in larger pieces', () => {
    const head = {
      place: { kind: 'message', messageId: '0'.repeat(32) },
      sessionId: '0'.repeat(32),
      model: 'm',
      request: null,
    } as const;
    const lived = createResponseFrames(head);
    lived('begin');
    const [, number] = /output_text.delta","sequence_number":(\d+)/.exec(lived({ kind: 'text', text: 'One' })) ?? [];
    const replayed = createResponseFrames(head, Number(number));
    expect(replayed('begin')).toBe('');
    expect(replayed({ kind: 'text', text: 'One two' })).toContain('"delta":" two"');
    expect(lived({ kind: 'cut-off', cutOff: { code: 'store_unavailable', message: 'the server stops' } })).toContain(
      `"sequence_number":${number},`,
    );
  });

  it('follows a background response, which survives that its first reader goes', async () => {
    const gate = `held-${taken}`;
    const model = nextModel([{ ...LONG, gates: { afterChunks: { count: 2, gate } } }]);
    const begun = await client.responses.create({ model, input: 'Count', background: true });
    expect(begun).toMatchObject({ status: 'in_progress', background: true, output: [] });
    await started.service.simulator.gate(gate).reached;
    await eventually(
      async () => (await client.responses.retrieve(begun.id)).output_text === 'One tw',
      'the text so far is there',
    );
    expect(await client.responses.retrieve(begun.id)).toMatchObject({ status: 'in_progress', usage: null });
    const rest = await client.responses.retrieve(begun.id, { stream: true });
    started.service.simulator.gate(gate).release();
    expect(textOf(await eventsOf(rest))).toBe(LONG.text);
    expect(await client.responses.retrieve(begun.id)).toMatchObject({ status: 'completed', output_text: LONG.text });
  });

  it('cancels a response, and one whose message waits', async () => {
    const gate = `held-${taken}`;
    const model = nextModel([{ ...LONG, gates: { afterChunks: { count: 2, gate } } }]);
    const asked = { model, conversation: 'busy', background: true };
    const begun = await client.responses.create({ ...asked, input: 'Count' });
    await started.service.simulator.gate(gate).reached;
    const queued = await client.responses.create({ ...asked, input: 'Then' });
    expect(queued.status).toBe('queued');
    expect((await client.responses.retrieve(queued.id)).status).toBe('queued');
    expect(await client.responses.cancel(queued.id)).toMatchObject({ status: 'cancelled' });
    await client.responses.cancel(begun.id);
    await eventually(
      async () => (await client.responses.retrieve(begun.id)).status === 'cancelled',
      'the response is cancelled',
    );
  });

  it('is told why a run failed, in the response and in its last event', async () => {
    const model = nextModel([]);
    started.service.simulator.fault(model, [{ status: 401 }, { status: 401 }]);
    const failed = await client.responses.create({ model, input: 'Hi' });
    const error = { code: 'server_error', baton: { code: 'auth' } };
    expect(failed).toMatchObject({ status: 'failed', error, output: [], completed_at: null });
    const events = await eventsOf(await client.responses.create({ model, input: 'Ho', stream: true }));
    expect(events.at(-1)).toMatchObject({ type: 'response.failed', response: { error } });
  });

  it.each([
    [{ input: 'Hi', max_tool_calls: 3 }, 'max_tool_calls'],
    [{ input: 'Hi', tools: [{ type: 'web_search' }] }, 'tools.0.type'],
    [
      { input: 'Hi', text: { format: { type: 'json_schema', name: 'a b', schema: { type: 'object' } } } },
      'text.format',
    ],
    [{ input: [{ type: 'item_reference', id: 'msg_gone' }] }, 'input.0.id'],
    [{ input: [{ role: 'user', content: [{ type: 'input_audio' }] }] }, 'input'],
    [{ input: 'Hi', conversation: 'a', previous_response_id: `resp_m${'0'.repeat(32)}` }, 'previous_response_id'],
  ])('is refused %j by the name of the field', async (fields, param) => {
    const refused = client.post('/responses', { body: { model: 'model-0', ...fields } });
    await expect(refused).rejects.toMatchObject({ status: 400, message: expect.stringContaining(param) });
  });

  it('is told that there is no such response', async () => {
    for (const id of ['resp_nothing', `resp_m${'0'.repeat(32)}`, `resp_r${'0'.repeat(32)}_7`]) {
      await expect(client.responses.retrieve(id)).rejects.toMatchObject({ status: 404, code: 'not_found' });
    }
    await expect(client.get('/responses/resp_nothing/x')).rejects.toThrow(/Baton has POST \/v1\/responses/);
  });
});

describe('the AI SDK', () => {
  const openai = () => createOpenAI({ baseURL: `${started.url}/v1`, apiKey: 'none' });

  it('speaks with an agent by its default model, in one session', async () => {
    const model = nextModel([{ text: 'Hello!' }, { text: 'Again.' }]);
    const hi = { role: 'user' as const, content: 'Hi' };
    const first = await generateText({ model: openai()(model), messages: [hi] });
    expect(first.text).toBe('Hello!');
    const messages = [hi, ...first.response.messages, { role: 'user' as const, content: 'And?' }];
    const second = streamText({ model: openai()(model), messages });
    expect(await second.text).toBe('Again.');
    expect(await sessionsOf(model)).toHaveLength(1);
  });

  it('runs its own tools through several steps, and gets an object', async () => {
    const call = { name: 'weather', input: { city: 'Rome' } };
    const model = nextModel([
      { text: 'Let me see.', toolCalls: [call] },
      { text: 'And again.', toolCalls: [call] },
      { text: 'Sunny.' },
      { text: JSON.stringify(VALUE) },
    ]);
    const weather = tool({ inputSchema: jsonSchema({ type: 'object' }), execute: () => 'sun' });
    const asked = { model: openai()(model), prompt: 'Weather?', tools: { weather }, stopWhen: stepCountIs(5) };
    const { text, steps } = await generateText(asked);
    expect({ text, steps: steps.length }).toEqual({ text: 'Sunny.', steps: 3 });
    expect(await sessionsOf(model)).toHaveLength(1);
    const output = Output.object({ schema: Price });
    expect((await generateText({ model: openai()(model), prompt: 'How much?', output })).output).toEqual(VALUE);
  });
});

it('belongs to its tenant', async () => {
  const model = nextModel([{ text: 'Hello!' }, { text: 'Mine.' }]);
  const { id, output } = await client.responses.create({ model, input: 'Hi' });
  const { db } = started.service.deps;
  const clientOf = async (tenantId: string) => {
    const { secret: apiKey } = await createTestKey(db, tenantId);
    return new OpenAI({ baseURL: `${started.url}/v1`, apiKey, maxRetries: 0 });
  };
  const [mine, other] = [await clientOf('default'), await clientOf('other')];
  const item = { type: 'item_reference' as const, id: output[0]?.id ?? '' };
  const foreign = [
    () => other.responses.retrieve(id),
    () => other.responses.cancel(id),
    () => other.responses.create({ model, input: 'Ho', previous_response_id: id }),
  ];
  for (const ask of foreign) await expect(ask()).rejects.toMatchObject({ status: 404 });
  await expect(other.responses.create({ model, input: [item, { role: 'user', content: 'Ho' }] })).rejects.toMatchObject(
    { status: 400 },
  );
  expect((await mine.responses.retrieve(id)).output_text).toBe('Hello!');
});
