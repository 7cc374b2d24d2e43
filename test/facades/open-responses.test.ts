import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { createWaitingTools } from '../flow/waiting-scenario.ts';
import { openSocket, type SocketEvent } from './socket-client.ts';
import { type ChatService, startChatService } from './ui-chat-fixture.ts';

/** https://www.openresponses.org, 2026-04-24: what a response has. */
const numbers = { input_tokens: z.int(), output_tokens: z.int(), total_tokens: z.int() };
const usage = z.object({
  ...numbers,
  input_tokens_details: z.object({ cached_tokens: z.int() }),
  output_tokens_details: z.object({ reasoning_tokens: z.int() }),
});
const part = z.object({
  type: z.literal('output_text'),
  text: z.string(),
  annotations: z.array(z.object({ type: z.literal('url_citation') })),
  logprobs: z.array(z.unknown()),
});
const itemStatus = z.enum(['in_progress', 'completed', 'incomplete']);
const item = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('message'),
    id: z.string(),
    status: itemStatus,
    role: z.string(),
    content: z.array(part),
  }),
  z.object({
    ...{ type: z.literal('function_call'), id: z.string(), call_id: z.string(), name: z.string() },
    ...{ arguments: z.string(), status: itemStatus },
  }),
]);
const functionTool = z.object({
  type: z.literal('function'),
  name: z.string(),
  description: z.string().nullable(),
  parameters: z.record(z.string(), z.unknown()).nullable(),
  strict: z.boolean().nullable(),
});
const responseSchema = z.object({
  id: z.string(),
  object: z.literal('response'),
  created_at: z.int(),
  completed_at: z.int().nullable(),
  status: z.string(),
  incomplete_details: z.object({ reason: z.string() }).nullable(),
  model: z.string(),
  previous_response_id: z.string().nullable(),
  instructions: z.string().nullable(),
  output: z.array(item),
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
  tools: z.array(functionTool),
  tool_choice: z.union([z.enum(['none', 'auto', 'required']), z.object({ type: z.literal('function') })]),
  truncation: z.enum(['auto', 'disabled']),
  parallel_tool_calls: z.boolean(),
  text: z.object({ format: z.object({ type: z.enum(['text', 'json_object', 'json_schema']) }) }),
  top_p: z.number(),
  presence_penalty: z.number(),
  frequency_penalty: z.number(),
  top_logprobs: z.int(),
  temperature: z.number(),
  reasoning: z.object({ effort: z.string().nullable(), summary: z.string().nullable() }).nullable(),
  usage: usage.nullable(),
  max_output_tokens: z.int().nullable(),
  max_tool_calls: z.int().nullable(),
  store: z.boolean(),
  background: z.boolean(),
  service_tier: z.string(),
  metadata: z.record(z.string(), z.unknown()),
  safety_identifier: z.string().nullable(),
  prompt_cache_key: z.string().nullable(),
});

const at = { item_id: z.string(), output_index: z.int() };
const inPart = { ...at, content_index: z.int() };
const numbered = <Shape extends z.ZodRawShape>(type: string, shape: Shape) =>
  z.object({ type: z.literal(type), sequence_number: z.int(), ...shape });
const EVENTS: readonly z.ZodType[] = [
  ...['created', 'in_progress', 'completed', 'incomplete', 'failed'].map((end) =>
    numbered(`response.${end}`, { response: responseSchema }),
  ),
  numbered('response.output_item.added', { output_index: z.int(), item }),
  numbered('response.output_item.done', { output_index: z.int(), item }),
  numbered('response.content_part.added', { ...inPart, part }),
  numbered('response.content_part.done', { ...inPart, part }),
  numbered('response.output_text.delta', { ...inPart, delta: z.string(), logprobs: z.array(z.unknown()) }),
  numbered('response.output_text.done', { ...inPart, text: z.string(), logprobs: z.array(z.unknown()) }),
  numbered('response.function_call_arguments.delta', { ...at, delta: z.string() }),
  numbered('response.function_call_arguments.done', { ...at, name: z.string(), arguments: z.string() }),
];
const socketError = z.object({
  type: z.literal('error'),
  status: z.int(),
  error: z.object({ type: z.string(), code: z.string(), message: z.string(), param: z.string().nullable() }),
});
const eventSchema = z.union([...EVENTS, socketError]);

const compactionSchema = z.object({
  id: z.string(),
  object: z.literal('response.compaction'),
  output: z
    .array(z.object({ type: z.literal('compaction'), id: z.string(), encrypted_content: z.string().min(1) }))
    .min(1),
  created_at: z.int(),
  usage,
});

const said = (role: string, content: unknown, more = {}) => ({ type: 'message', role, content, ...more });
const PIXEL =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const WEATHER = {
  type: 'function',
  name: 'get_weather',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
};

/**
 * Open Responses' 17 cases are these six, `streaming-response`, which every one of them is here,
 * `response-output-phase-schema`, which sends no request, two of compaction and seven over a WebSocket: below.
 */
const CASES: Readonly<Record<string, object>> = {
  'basic-response': { input: [said('user', 'Say hello in three words.')] },
  'assistant-phase': {
    input: [
      said('assistant', 'The number is saved.', { phase: 'commentary' }),
      said('assistant', 'It is four.', { phase: 'final_answer' }),
      said('user', 'Repeat the number.'),
    ],
  },
  'system-prompt': { input: [said('system', 'You are a pirate.'), said('user', 'Hello')] },
  'tool-calling': { input: [said('user', 'Weather in Rome?')], tools: [WEATHER] },
  'image-input': {
    input: [
      said('user', [
        { type: 'input_text', text: 'What is this?' },
        { type: 'input_image', image_url: PIXEL },
      ]),
    ],
  },
  'multi-turn': { input: [said('user', 'I am Ada.'), said('assistant', 'Hello, Ada.'), said('user', 'Who am I?')] },
};
const ANSWERS: Readonly<Record<string, object>> = {
  'tool-calling': { toolCalls: [{ name: 'get_weather', input: { city: 'Rome' } }] },
};

let started: ChatService;
const AGENTS = [...Object.keys(CASES).flatMap((name) => [{ name }, { name: `${name}-stream` }]), { name: 'sockets' }];

async function ask(name: string, model: string, fields: object): Promise<Response> {
  started.service.simulator.script(model, [ANSWERS[name] ?? { text: 'Hello over there.' }]);
  const body = JSON.stringify({ model, ...CASES[name], ...fields });
  const response = await fetch(`${started.url}/v1/responses`, {
    ...{ method: 'POST', headers: { 'content-type': 'application/json' }, body },
  });
  expect(response.status).toBe(200);
  return response;
}

beforeAll(async () => {
  started = await startChatService(AGENTS, createWaitingTools().tools);
});
afterAll(() => started[Symbol.asyncDispose]());

describe.each(Object.keys(CASES))('Open Responses’ %s', (name) => {
  it('is answered by a complete and valid response, also when it is read again', async () => {
    const told = responseSchema.parse(await (await ask(name, name, {})).json());
    expect(told).toMatchObject({ status: 'completed', completed_at: expect.any(Number), error: null });
    expect(told.output.map(({ type }) => type)).toEqual([ANSWERS[name] === undefined ? 'message' : 'function_call']);
    expect(told.usage?.total_tokens).toBeGreaterThan(0);
    const again = await fetch(`${started.url}/v1/responses/${told.id}`);
    expect(responseSchema.parse(await again.json()).output).toEqual(told.output);
  });

  it('streams valid events alone, the last one with the response', async () => {
    const stream = await (await ask(name, `${name}-stream`, { stream: true })).text();
    const events = [...stream.matchAll(/^data: (.*)$/gm)].map(([, data = '']) =>
      z.looseObject({ type: z.string() }).parse(JSON.parse(data)),
    );
    for (const event of events) expect(eventSchema.safeParse(event).error, event.type).toBeUndefined();
    expect(events[0]?.type).toBe('response.created');
    expect(events.at(-1)?.type).toBe('response.completed');
  });
});

describe('Open Responses’ cases of compaction', () => {
  const compact = (body: object) =>
    fetch(`${started.url}/v1/responses/compact`, {
      ...{ method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) },
    });
  const AGREED = [said('user', 'We launch on Tuesday.'), said('assistant', 'Understood: Tuesday.')];

  it('compact-response', async () => {
    const compacted = await compact({ model: 'sockets', prompt_cache_key: 'a-key', input: AGREED });
    expect(compacted.status).toBe(200);
    expect(compactionSchema.safeParse(await compacted.json()).error).toBeUndefined();
  });

  it('compact-missing-model', async () => {
    expect((await compact({ input: AGREED })).status).toBe(400);
  });

  it('websocket-compact-new-chain', async () => {
    const compacted = await compact({ model: 'sockets', input: [...AGREED, said('user', 'Keep it for later.')] });
    const { output } = compactionSchema.parse(await compacted.json());
    const [events] = await talk([{ store: false, tools: [], input: [...output, said('user', 'Go on.')] }]);
    expectCompleted(events);
  });
});

type Turn = object | ((earlier: readonly SocketEvent[][]) => object);

/** The events of each turn, on one connection. */
async function talk(turns: readonly Turn[]): Promise<SocketEvent[][]> {
  started.service.simulator.script('sockets', () => ({ text: 'Hello over there.' }));
  using client = await openSocket(started.url);
  const told: SocketEvent[][] = [];
  for (const turn of turns) {
    const body = typeof turn === 'function' ? turn(told) : turn;
    told.push(await client.ask({ model: 'sockets', ...body }));
  }
  for (const event of told.flat()) expect(eventSchema.safeParse(event).error, event.type).toBeUndefined();
  return told;
}

const ended = z.object({ response: responseSchema });
const idOf = (events: readonly SocketEvent[] = []): string => ended.parse(events.at(-1)).response.id;

function expectCompleted(events: readonly SocketEvent[] = []): void {
  expect(events[0]?.type).toBe('response.created');
  expect(ended.parse(events.at(-1)).response).toMatchObject({ status: 'completed', output: [{ type: 'message' }] });
}

const NOT_FOUND = { type: 'error', error: { code: 'previous_response_not_found' } };

describe('Open Responses’ cases over a WebSocket', () => {
  it('websocket-response', async () => {
    const [events] = await talk([{ input: [said('user', 'Count to three.')] }]);
    expectCompleted(events);
  });

  it('websocket-sequential-responses', async () => {
    for (const events of await talk([
      { store: false, input: 'First' },
      { store: false, input: 'Second' },
    ])) {
      expectCompleted(events);
    }
  });

  it('websocket-continuation', async () => {
    const goOn: Turn = ([first]) => ({ store: false, previous_response_id: idOf(first), input: 'The code word?' });
    const [, second] = await talk([{ store: false, input: 'The code word is cobalt.' }, goOn]);
    expectCompleted(second);
    expect(JSON.stringify(started.service.simulator.requests.at(-1)?.request?.messages)).toContain('cobalt');
  });

  it('websocket-reconnect-store-false-recovery', async () => {
    const [first] = await talk([{ store: false, input: 'The code word is copper.' }]);
    const goOn = { store: false, previous_response_id: idOf(first), input: 'Go on.' };
    const [refused, fresh] = await talk([goOn, { store: false, input: [said('user', 'Begin anew.')] }]);
    expect(refused).toMatchObject([NOT_FOUND]);
    expectCompleted(fresh);
  });

  it('websocket-previous-response-not-found', async () => {
    const previous_response_id = 'resp_openresponses_missing_1';
    for (const store of [false, true]) {
      expect(await talk([{ store, previous_response_id, input: 'Go on.' }])).toMatchObject([[NOT_FOUND]]);
    }
  });

  it('websocket-failed-continuation-evicts-cache', async () => {
    const output = { type: 'function_call_output', call_id: 'call_missing', output: 'none' };
    const [, failed, late] = await talk([
      { store: false, input: 'The code word is ember.' },
      ([first]) => ({ store: false, previous_response_id: idOf(first), input: [output] }),
      ([first]) => ({ store: false, previous_response_id: idOf(first), input: 'Go on.' }),
    ]);
    expect(failed).toMatchObject([{ type: 'error', status: 409 }]);
    expect(late).toMatchObject([NOT_FOUND]);
  });
});
