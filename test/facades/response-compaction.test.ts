import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { agentWith, prose, readTool } from '../compaction/compaction-support.ts';
import { type ChatService, startChatService } from './ui-chat-fixture.ts';

type Input = OpenAI.Responses.ResponseInput;

const PIXEL =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const AGENTS = Array.from({ length: 9 }, (_, n) => agentWith({ maxContextTokens: 16_000 }, { name: `model-${n}` }));
const said = (role: 'user' | 'assistant', content: string) => ({ role, content });
/** More than an agent keeps verbatim, and less than its window. */
const HISTORY = Array.from({ length: 10 }, (_, n) => [
  said('user', `Question ${n}: ${prose(n, 900)}`),
  said('assistant', `Noted ${n}.`),
]).flat();

let started: ChatService;
let client: OpenAI;
let taken = 0;

function nextModel(replies: Parameters<ChatService['service']['simulator']['script']>[1]): string {
  const model = `model-${taken++}`;
  started.service.simulator.script(model, replies);
  return model;
}

/** What the model was sent for its last answer. */
const lastRequest = (model: string): string => {
  const requests = started.service.simulator.requests.filter(({ request }) => request?.model === model);
  return JSON.stringify(requests.at(-1)?.request?.messages);
};

beforeAll(async () => {
  started = await startChatService(AGENTS, [readTool]);
  client = new OpenAI({ baseURL: `${started.url}/v1`, apiKey: 'none', maxRetries: 0 });
});
afterAll(() => started[Symbol.asyncDispose]());

describe('a compaction of a conversation', () => {
  it('is one item, by which a later request goes on without what came before', async () => {
    const model = nextModel([{ text: 'Lemons.' }, { text: 'Two.' }]);
    const compacted = await client.responses.compact({ model, input: HISTORY, instructions: 'Be short.' });
    expect(compacted).toMatchObject({
      object: 'response.compaction',
      output: [{ type: 'compaction', encrypted_content: expect.any(String) }],
    });
    expect(compacted.usage.input_tokens).toBeGreaterThan(1_000);
    const input = [...compacted.output, said('user', 'What do we ship?')] as Input;
    const first = await client.responses.create({ model, input });
    expect(first.output_text).toBe('Lemons.');
    const sent = lastRequest(model);
    for (const there of ['conversation_summary', 'Question 0', 'Noted 9.', 'What do we ship?']) {
      expect(sent).toContain(there);
    }
    expect(sent).not.toContain('Noted 0.');
    expect(sent).not.toContain('Question 3');
    // Sent again with the answer, the conversation is that session's.
    const again = [...input, said('assistant', 'Lemons.'), said('user', 'How many?')] as Input;
    const second = await client.responses.create({ model, input: again });
    expect(second.conversation).toEqual(first.conversation);
    const { input_tokens: tokens } = await client.responses.inputTokens.count({ model, input });
    expect(tokens).toBeGreaterThan(1_000);
    expect(tokens).toBeLessThan(8_000);
  });

  it('of a short conversation carries it as it is, with calls and files', async () => {
    const model = nextModel([{ text: 'A pixel.' }]);
    const calls = [
      { type: 'function_call', call_id: 'call_1', name: 'weather', arguments: '{"city":"Rome","a":1}' },
      { type: 'function_call_output', call_id: 'call_1', output: 'sun' },
    ];
    const picture = { role: 'user', content: [{ type: 'input_image', image_url: PIXEL, detail: 'auto' }] };
    const input = [said('user', 'Weather?'), ...calls, said('assistant', 'Sunny.'), picture] as Input;
    const { output, usage } = await client.responses.compact({ model, input });
    expect(usage.total_tokens).toBe(0);
    const twice = await client.responses.compact({ model, input: [...output, said('assistant', 'A pixel?')] as Input });
    const next = [{ role: 'system', content: 'Be brief.' }, ...twice.output, said('user', 'What is it?')] as Input;
    const answered = await client.responses.create({ model, input: next });
    const sent = lastRequest(model);
    for (const there of ['Weather?', 'sun', 'Sunny.', 'A pixel?', 'What is it?']) expect(sent).toContain(there);
    expect(started.service.simulator.requests.at(-1)?.request?.system).toContain('Be brief.');
    const items = await Array.fromAsync(await client.responses.inputItems.list(answered.id, { order: 'asc' }));
    expect(items).toMatchObject([
      { type: 'message', role: 'user' },
      { type: 'function_call', name: 'weather', arguments: '{"city":"Rome","a":1}' },
      { type: 'function_call_output', output: 'sun' },
      { role: 'assistant' },
      { role: 'user', content: [{ type: 'input_image', file_id: expect.stringMatching(/^blob_/) }] },
      { role: 'assistant' },
      { role: 'user' },
    ]);
  });

  it('of an earlier response leaves its session as it is', async () => {
    const model = nextModel([{ text: 'Hello!' }, { text: 'Again.' }]);
    const first = await client.responses.create({ model, input: 'I am Ada.' });
    const { db } = started.service.deps;
    const compacted = await client.responses.compact({ model, previous_response_id: first.id });
    const audited = await db
      .selectFrom('audit_log')
      .select(['action', 'target'])
      .orderBy('seq', 'desc')
      .executeTakeFirst();
    expect(audited).toMatchObject({
      action: 'session:compact',
      target: expect.stringMatching(/^\/v1\/sessions\/.*\/compact$/),
    });
    const next = await client.responses.create({
      model,
      input: [...compacted.output, said('user', 'Who am I?')] as Input,
    });
    expect(next.conversation).not.toEqual(first.conversation);
    expect(lastRequest(model)).toContain('I am Ada.');
    expect(await client.responses.retrieve(first.id)).toMatchObject({ output_text: 'Hello!' });
    await expect(client.responses.compact({ model, previous_response_id: 'resp_gone' })).rejects.toMatchObject({
      status: 404,
    });
  });

  it('is refused for what it is not', async () => {
    const model = nextModel([]);
    const carry = (content: string, rest: object = {}) =>
      client.responses.create({
        ...{ model, input: [{ type: 'compaction', encrypted_content: content }, said('user', 'Hi')] as Input, ...rest },
      });
    const forged = (value: object) => `baton1.${Buffer.from(JSON.stringify(value)).toString('base64url')}`;
    const user = (part: object) => forged({ messages: [{ role: 'user', parts: [part] }] });
    const contents = [
      ...['gAAAAA', forged({}), 'baton1.{', `baton1.${'W1tb'.repeat(100)}`],
      // A file by its place in storage could be that of another session.
      user({ type: 'file', mediaType: 'image/png', url: '@blob:blob_018f0000000070008000000000000000' }),
      user({ type: 'tool', toolCallId: 'a', toolName: 'b', input: {}, state: 'running' }),
    ];
    for (const content of contents) {
      await expect(carry(content)).rejects.toMatchObject({ status: 400, param: 'input.0.encrypted_content' });
    }
    const { output } = await client.responses.compact({ model, input: 'Hi' });
    const own = String(output[0]?.type === 'compaction' && output[0].encrypted_content);
    await expect(carry(own, { conversation: 'mine' })).rejects.toMatchObject({ status: 400, param: 'conversation' });
    await expect(client.responses.compact({ model })).rejects.toMatchObject({ status: 400, param: 'input' });
    await expect(client.responses.compact({ model: 'nobody', input: 'Hi' })).rejects.toMatchObject({ status: 404 });
  });

  it('fails with the error of a summary that cannot be used', async () => {
    const model = nextModel([]);
    started.service.simulator.summaries([], 'garbage');
    await expect(client.responses.compact({ model, input: HISTORY })).rejects.toMatchObject({
      ...{ status: 502, code: 'summary_invalid' },
    });
    started.service.simulator.summaries([]);
  });
});
