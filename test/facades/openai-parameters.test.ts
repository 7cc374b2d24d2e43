import OpenAI from 'openai';
import type { ChatCompletionCreateParams, ChatCompletionMessageParam } from 'openai/resources/chat/completions';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { completionRequestSchema } from '../../src/api/completion-request.ts';
import { agentFor } from '../../src/facades/openai/completion-request.ts';
import { type ChatService, startChatService } from './ui-chat-fixture.ts';

type Row = Readonly<{ taken: readonly unknown[]; refused: readonly unknown[] }>;

const FORMAT = { type: 'json_schema', json_schema: { name: 'x', schema: { type: 'array' } } };

/**
 * Every parameter that the library documents, but for `model` and `messages`; one that comes to it has to get a row.
 */
const PARAMETERS: Readonly<Record<Exclude<keyof ChatCompletionCreateParams, 'model' | 'messages'>, Row>> = {
  audio: { taken: [{}], refused: [{ voice: 'alloy', format: 'mp3' }] },
  frequency_penalty: { taken: [0], refused: [1] },
  function_call: { taken: ['auto', 'none'], refused: [{ name: 'weather' }] },
  functions: { taken: [[]], refused: [[{ name: 'weather' }]] },
  logit_bias: { taken: [{}], refused: [{ '50256': -100 }] },
  logprobs: { taken: [false], refused: [true] },
  max_completion_tokens: { taken: [100], refused: [0] },
  max_tokens: { taken: [100], refused: ['100'] },
  metadata: { taken: [{}, { topic: 'x' }], refused: [['x']] },
  modalities: { taken: [[], ['text']], refused: [['text', 'audio']] },
  moderation: { taken: [{}], refused: [{ model: 'omni-moderation-latest' }] },
  n: { taken: [1], refused: [2] },
  parallel_tool_calls: { taken: [true, false], refused: ['no'] },
  prediction: { taken: [{}, { type: 'content', content: 'x' }], refused: ['x'] },
  presence_penalty: { taken: [0], refused: [0.5] },
  prompt_cache_key: { taken: ['', 'k'], refused: [1] },
  prompt_cache_options: { taken: [{}, { mode: 'implicit', ttl: '30m' }], refused: ['x'] },
  prompt_cache_retention: { taken: ['24h'], refused: [24] },
  reasoning_effort: { taken: ['none', 'xhigh', 'low'], refused: ['much', 3] },
  response_format: { taken: [{ type: 'text' }], refused: [FORMAT, { type: 'json_schema' }, { type: 'grammar' }] },
  safety_identifier: { taken: ['', 'u'], refused: [1] },
  seed: { taken: [0, -1, 42], refused: ['42', 1.5] },
  service_tier: { taken: ['auto', 'default', 'flex'], refused: [1] },
  stop: { taken: [[], 'END', ['END', 'STOP']], refused: ['', ['a', 'b', 'c', 'd', 'e'], [1]] },
  store: { taken: [false, true], refused: ['yes'] },
  stream: { taken: [false], refused: ['yes'] },
  stream_options: { taken: [{}, { include_usage: true }, { include_usage: null }], refused: [true] },
  temperature: { taken: [0, 1], refused: [3] },
  tool_choice: {
    taken: ['auto', 'none'],
    refused: ['any', 'required', { type: 'function', function: { name: 'weather' } }],
  },
  tools: { taken: [[]], refused: [[{ type: 'custom', custom: { name: 'x' } }]] },
  top_logprobs: { taken: [0], refused: [5] },
  top_p: { taken: [0, 1, 0.5], refused: [2, '1'] },
  user: { taken: ['', 'u'], refused: [1] },
  verbosity: { taken: ['medium'], refused: ['low', 'high'] },
  web_search_options: { taken: [], refused: [{}, { search_context_size: 'low' }] },
};
const rows = Object.entries(PARAMETERS);
const messages: ChatCompletionMessageParam[] = [{ role: 'user', content: 'Hi' }];

describe('the parameters of chat completions', () => {
  let started: ChatService;
  let client: OpenAI;
  beforeAll(async () => {
    started = await startChatService([
      { name: 'plain', model: 'simulated-chat/plain' },
      { name: 'thinker', model: 'simulated-chat/o4-mini', settings: { reasoning: 'high' } },
      { name: 'responses' },
    ]);
    client = new OpenAI({ baseURL: `${started.url}/v1`, apiKey: 'none', maxRetries: 0 });
  });
  afterAll(() => started[Symbol.asyncDispose]());
  const ask = (fields: object) => client.chat.completions.create({ model: 'plain', messages, ...fields });
  const runs = () => started.service.deps.db.selectFrom('runs').select('id').execute();

  test.each(rows)('%s is taken where it asks for nothing, or for what is possible', (name, { taken }) => {
    for (const value of [null, undefined, ...taken]) {
      const parsed = completionRequestSchema.safeParse({ model: 'plain', messages, [name]: value });
      expect(parsed.error?.issues, `${name}: ${JSON.stringify(value)}`).toBeUndefined();
    }
  });

  test.each(rows)('%s is refused by its name where it asks for anything else', async (name, { refused }) => {
    for (const value of refused) {
      const error: unknown = await ask({ [name]: value }).catch((thrown: unknown) => thrown);
      expect(error, `${name}: ${JSON.stringify(value)}`).toBeInstanceOf(OpenAI.BadRequestError);
      const { type, param, message } = error as InstanceType<typeof OpenAI.BadRequestError>;
      expect(type).toBe('invalid_request_error');
      expect(param?.split('.')[0]).toBe(name);
      expect(message).toContain(name);
    }
    expect(refused).not.toEqual([]);
    expect(await runs()).toEqual([]);
  });

  const called = (times: number): ChatCompletionMessageParam => ({
    role: 'assistant',
    tool_calls: Array.from({ length: times }, (_, at) => ({
      id: `c${at}`,
      type: 'function',
      function: { name: 'f', arguments: '{}' },
    })),
  });
  const times = (count: number) => Array.from({ length: count }, () => messages).flat();

  test.each([
    ['messages', times(10_000), times(10_001)],
    ['messages.0.tool_calls', [called(1_000)], [called(1_001)]],
  ])('%s are as many as may be', async (param, most, tooMany) => {
    expect(completionRequestSchema.safeParse({ model: 'plain', messages: most }).success).toBe(true);
    const error: unknown = await ask({ messages: tooMany }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(OpenAI.BadRequestError);
    expect(error).toMatchObject({ type: 'invalid_request_error', param });
  });

  test('tool_choice "none" leaves out the tools of the request, and not those of the agent', () => {
    const tools = [{ type: 'function', function: { name: 'weather' } }];
    const offered = (fields: object) =>
      agentFor(completionRequestSchema.parse({ model: 'own', messages, tools, ...fields }), {
        name: 'own',
        model: 'simulated/own',
        tools: ['deploy'],
      }).tools;
    expect(offered({ tool_choice: 'none' })).toEqual(['deploy']);
    expect(offered({})).toMatchObject(['deploy', { client: { name: 'weather' } }]);
  });

  test('an answer comes with all of them at null, and with all of them at what they may be', async () => {
    started.service.simulator.script('plain', [{ text: 'One.' }]);
    const nulls = await ask(Object.fromEntries(rows.map(([name]) => [name, null])));
    expect(nulls.choices[0]?.message.content).toBe('One.');
    const given = rows.flatMap(([name, { taken }]) => (taken.length === 0 ? [] : [[name, taken.at(-1)]]));
    const full = await ask(Object.fromEntries(given));
    expect(full.choices[0]?.message.content).toBe('One.');
    expect(await runs()).toHaveLength(2);
  });

  test('how the model is to answer is said to its provider, and holds until a request says otherwise', async () => {
    const { simulator } = started.service;
    const asked = async (model: string, said: string, fields: object) => {
      simulator.clear();
      simulator.script('*', () => ({ text: 'One.' }));
      await ask({ model, messages: [{ role: 'user', content: said }], ...fields });
      return JSON.parse(simulator.requests[0]?.rawBody ?? '{}') as Readonly<Record<string, unknown>>;
    };
    const settings = { temperature: 0.4, top_p: 0.5, seed: 42, stop: ['END', 'STOP'] };
    const body = await asked('plain', 'With all of them', { ...settings, max_completion_tokens: 300 });
    expect(body).toMatchObject({ ...settings, max_tokens: 300 });
    expect(await asked('plain', 'With one', { stop: 'END' })).toMatchObject({ stop: ['END'] });
    const bare = await asked('plain', 'With none', {});
    for (const name of Object.keys(settings)) expect(bare).not.toHaveProperty(name);
    expect(await asked('thinker', 'Little', { reasoning_effort: 'low' })).toMatchObject({ reasoning_effort: 'low' });
    expect(await asked('thinker', 'As ever', {})).toMatchObject({ reasoning_effort: 'high' });
  });

  test('tools are strict, called one by one and chosen as the request says, also after results', async () => {
    const { simulator } = started.service;
    const tool = (name: string) => ({
      type: 'function' as const,
      function: { name, strict: true, parameters: { type: 'object', properties: {}, additionalProperties: false } },
    });
    const named = (name: string) => ({ type: 'function' as const, function: { name } });
    const tools = [tool('weather'), tool('traffic')];
    const allowed = { mode: 'required' as const, tools: [named('weather')] };
    const asked = { tools, parallel_tool_calls: false };
    simulator.clear();
    simulator.script('*', ({ index }) =>
      index === 0 ? { toolCalls: [{ name: 'weather', input: {} }] } : { text: 'Sun.' },
    );
    const question: ChatCompletionMessageParam[] = [{ role: 'user', content: 'Weather, strictly?' }];
    const first = await ask({
      ...asked,
      messages: question,
      tool_choice: { type: 'allowed_tools', allowed_tools: allowed },
    });
    const [call] = first.choices[0]?.message.tool_calls ?? [];
    const result = { role: 'tool' as const, tool_call_id: call?.id ?? '', content: 'sun' };
    const history = [...question, { role: 'assistant' as const, tool_calls: [call] }, result];
    await ask({ ...asked, messages: history, tool_choice: named('traffic') });
    const bodies = simulator.requests.map(({ rawBody }) => JSON.parse(rawBody ?? '{}'));
    const namesOf = (body: { tools: { function: { name: string } }[] }) => body.tools.map((each) => each.function.name);
    expect(bodies[0]).toMatchObject({ parallel_tool_calls: false, tool_choice: 'required' });
    expect(namesOf(bodies[0])).toContain('weather');
    expect(namesOf(bodies[0])).not.toContain('traffic');
    expect(bodies[0].tools[0]).toMatchObject({ function: { name: 'weather', strict: true } });
    expect(bodies[1].tool_choice).toMatchObject(named('traffic'));
  });

  test('instructions alone are answered', async () => {
    started.service.simulator.clear();
    started.service.simulator.script('*', () => ({ text: 'Hello.' }));
    const { choices } = await ask({ messages: [{ role: 'system', content: 'Say hello.' }] });
    expect(choices[0]?.message.content).toBe('Hello.');
  });

  test.each([
    ['seed', 7],
    ['stop', 'END'],
  ])('%s is refused by its name where the protocol of the model has no such field', async (name, value) => {
    const before = (await runs()).length;
    const error: unknown = await ask({ model: 'responses', [name]: value }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(OpenAI.BadRequestError);
    expect(error).toMatchObject({ param: name, message: expect.stringContaining('(openai-responses) takes none') });
    expect(await runs()).toHaveLength(before);
  });

  test('a model is an agent, and one that nobody knows is told in the form of OpenAI’s errors', async () => {
    expect(await client.models.retrieve('plain')).toEqual({
      id: 'plain',
      object: 'model',
      created: expect.any(Number),
      owned_by: 'baton',
    });
    const unknown: unknown = await client.models.retrieve('gpt-none/1').catch((thrown: unknown) => thrown);
    expect(unknown).toBeInstanceOf(OpenAI.NotFoundError);
    expect(unknown).toMatchObject({ code: 'model_not_found', type: 'invalid_request_error', param: 'model' });
  });
});
