import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createWaitingTools } from '../flow/waiting-scenario.ts';
import { type ChatService, startChatService } from './ui-chat-fixture.ts';

const AGENTS = [
  ...Array.from({ length: 10 }, (_, n) => ({ name: `model-${n}` })),
  { name: 'aliased', aliases: ['gpt-5.5', 'openai/GPT-4o'] },
];
const WEATHER = {
  type: 'function' as const,
  name: 'weather',
  description: 'Tells the weather.',
  parameters: { type: 'object', properties: { city: { type: 'string' } } },
  strict: false,
};
const PIXEL =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

let started: ChatService;
let client: OpenAI;
let taken = 0;

function nextModel(replies: Parameters<ChatService['service']['simulator']['script']>[1]): string {
  const model = `model-${taken++}`;
  started.service.simulator.script(model, replies);
  return model;
}

beforeAll(async () => {
  started = await startChatService(AGENTS, createWaitingTools().tools);
  client = new OpenAI({ baseURL: `${started.url}/v1`, apiKey: 'none', maxRetries: 0 });
});
afterAll(() => started[Symbol.asyncDispose]());

describe('the items of which a response was made', () => {
  /** A call and its answer after an imported history. */
  async function answered() {
    const model = nextModel([{ toolCalls: [{ name: 'weather', input: { city: 'Rome' } }] }, { text: 'Sunny.' }]);
    const image = [
      { type: 'input_text' as const, text: 'Weather here?' },
      { type: 'input_image' as const, image_url: PIXEL, detail: 'auto' as const },
    ];
    const input = [
      { role: 'user' as const, content: 'Hi' },
      { role: 'assistant' as const, content: 'Hello.' },
      { role: 'user' as const, content: image },
    ];
    const first = await client.responses.create({ model, input, tools: [WEATHER] });
    const [call] = first.output.filter((item) => item.type === 'function_call');
    const result = { type: 'function_call_output' as const, call_id: call?.call_id ?? '', output: 'sun' };
    const asked = { model, input: [result], previous_response_id: first.id, tools: [WEATHER] };
    return { first, second: await client.responses.create(asked), callId: call?.call_id };
  }

  it('are those up to the response, in pages and in both orders', async () => {
    const { first, second, callId } = await answered();
    const of = async (id: string, query: object = {}) =>
      Array.fromAsync(await client.responses.inputItems.list(id, { order: 'asc', ...query }));
    const items = await of(second.id);
    expect(items).toMatchObject([
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Hi' }] },
      { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Hello.' }] },
      { type: 'message', role: 'user', content: [{ type: 'input_text' }, { type: 'input_image', image_url: null }] },
      { type: 'function_call', call_id: callId, name: 'weather', arguments: '{"city":"Rome"}' },
      { type: 'function_call_output', call_id: callId, output: 'sun' },
    ]);
    expect(await of(first.id)).toEqual(items.slice(0, 3));
    expect(await of(second.id, { limit: 1 })).toEqual(items);
    expect(await of(second.id, { limit: 2, order: 'desc' })).toEqual(items.toReversed());
    const page = await client.get(`/responses/${second.id}/input_items?limit=2`);
    expect(page).toMatchObject({ object: 'list', has_more: true, first_id: items[4]?.id, last_id: items[3]?.id });
  });

  it('can be referred to by a later request', async () => {
    const model = nextModel([{ text: 'Hello!' }, { text: 'Again.' }]);
    const first = await client.responses.create({ model, input: 'Hi' });
    const [item] = await Array.fromAsync(await client.responses.inputItems.list(first.id));
    const reference = { type: 'item_reference' as const, id: item?.id ?? '' };
    const next = await client.responses.create({ model, input: [reference, { role: 'user', content: 'And?' }] });
    expect(next.conversation).toEqual(first.conversation);
  });

  it('end at an item that is none', async () => {
    const { id } = await client.responses.create({ model: nextModel([{ text: 'Hello!' }]), input: 'Hi' });
    await expect(client.responses.inputItems.list(id, { after: 'msg_gone' })).rejects.toThrow(/after/);
    await expect(client.responses.inputItems.list('resp_gone')).rejects.toMatchObject({ status: 404 });
  });
});

describe('the number of tokens of an input', () => {
  const count = async (body: object) => (await client.responses.inputTokens.count(body)).input_tokens;

  it('counts instructions, tools, files and what the session has, and stores nothing', async () => {
    const model = nextModel([{ text: 'Hello!', usage: { input: 1_000, output: 5 } }]);
    const bare = await count({ model, input: 'Hi' });
    expect(bare).toBeGreaterThan(0);
    const words = 'Be short and polite, and answer in the language of the question.';
    expect(await count({ model, input: 'Hi', instructions: words })).toBeGreaterThan(bare + 5);
    expect(await count({ model, input: 'Hi', tools: [WEATHER] })).toBeGreaterThan(bare + 10);
    const image = [{ type: 'input_image', image_url: PIXEL, detail: 'auto' }];
    expect(await count({ model, input: [{ role: 'user', content: image }] })).toBeGreaterThan(1_000);
    const sessions = started.service.deps.db.selectFrom('sessions').select('id').where('agent_name', '=', model);
    expect(await sessions.execute()).toEqual([]);
    const first = await client.responses.create({ model, input: 'Hi' });
    const more = { model, previous_response_id: first.id };
    expect(await count(more)).toBeGreaterThanOrEqual(1_000);
    expect(await count({ ...more, input: words })).toBeGreaterThan((await count(more)) + 5);
    // The client that sends the conversation whole is told the same.
    const whole = [{ role: 'user', content: 'Hi' }, ...first.output, { role: 'user', content: words }];
    expect(await count({ model, input: whole })).toBe(await count({ ...more, input: words }));
    expect(await sessions.execute()).toHaveLength(1);
  });

  it('is refused for an unknown agent', async () => {
    await expect(count({ model: 'nobody', input: 'Hi' })).rejects.toMatchObject({ status: 404 });
  });
});

describe('an agent with aliases', () => {
  it('is asked for by each of them, in one conversation', async () => {
    started.service.simulator.script('aliased', [{ text: 'Hello!' }, { text: 'Again.' }]);
    const ids = (await Array.fromAsync(await client.models.list())).map(({ id }) => id);
    expect(ids).toEqual(expect.arrayContaining(['aliased', 'gpt-5.5', 'openai/GPT-4o']));
    expect(await client.models.retrieve('openai/GPT-4o')).toMatchObject({ id: 'openai/GPT-4o' });
    const first = await client.responses.create({ model: 'gpt-5.5', input: 'Hi' });
    expect(first).toMatchObject({ model: 'aliased', output_text: 'Hello!' });
    const said = [
      { role: 'user' as const, content: 'Hi' },
      { role: 'assistant' as const, content: 'Hello!' },
    ];
    const messages = [...said, { role: 'user' as const, content: 'And?' }];
    const second = await client.chat.completions.create({ model: 'openai/GPT-4o', messages });
    expect(second).toMatchObject({ model: 'aliased', choices: [{ message: { content: 'Again.' } }] });
    const sessions = started.service.deps.db.selectFrom('sessions').select('id').where('agent_name', '=', 'aliased');
    expect(await sessions.execute()).toHaveLength(1);
    const [byAlias, byName] = await Promise.all(
      ['gpt-5.5', 'aliased'].map((model) => client.responses.inputTokens.count({ model, input: 'Hi' })),
    );
    expect(byAlias).toEqual(byName);
    expect(byAlias?.input_tokens).toBeGreaterThan(0);
  });
});

describe('a response that is deleted', () => {
  it('is gone with its session, unless that has other messages', async () => {
    const model = nextModel([{ text: 'Hello!' }, { text: 'Again.' }]);
    const { id } = await client.responses.create({ model, input: 'Hi' });
    expect(await client.delete(`/responses/${id}`)).toEqual({ id, object: 'response', deleted: true });
    await expect(client.responses.retrieve(id)).rejects.toMatchObject({ status: 404 });
    const audit = started.service.deps.db.selectFrom('audit_log').select('action');
    expect(await audit.execute()).toContainEqual({ action: 'session:delete' });
    const first = await client.responses.create({ model, input: 'Hi' });
    await client.responses.create({ model, input: 'And?', previous_response_id: first.id });
    await expect(client.responses.delete(first.id)).rejects.toMatchObject({
      status: 409,
      message: expect.stringContaining(`DELETE /v1/sessions/${first.conversation?.id}`),
    });
    expect((await client.responses.retrieve(first.id)).output_text).toBe('Hello!');
  });
});
