import { existsSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { createOpenAI } from '@ai-sdk/openai';
import { generateObject, generateText, Output, streamText } from 'ai';
import OpenAI from 'openai';
import { zodResponseFormat } from 'openai/helpers/zod';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { Reply } from '../../simulator/reply.ts';
import { createWaitingTools } from '../flow/waiting-scenario.ts';
import { type ChatService, startChatService, typesOf } from './ui-chat-fixture.ts';

const Price = z.object({ total: z.number(), currency: z.string() });
const VALUE = { total: 12, currency: 'EUR' };
const TEXT = JSON.stringify(VALUE);
const WRONG = '{"total":"twelve"}';
const { tools } = createWaitingTools();
/** By the provider's own field, and by the tool: the model behind the name decides. */
const NATIVE = Array.from({ length: 12 }, (_, n) => ({ name: `native-${n}`, tools: ['test'] }));
const BY_TOOL = { name: 'by-tool', model: 'simulated-chat/gpt-4', tools: ['test'] };
const WITH_OUTPUT = {
  name: 'with-output',
  output: { schema: { type: 'object' as const, properties: { total: { type: 'number' } }, required: ['total'] } },
};

let started: ChatService;
let client: OpenAI;
let taken = 0;

function nextModel(replies: readonly Reply[]): string {
  const model = `native-${taken++}`;
  started.service.simulator.script(model, replies);
  return model;
}

beforeAll(async () => {
  started = await startChatService([...NATIVE, BY_TOOL, WITH_OUTPUT], tools);
  client = new OpenAI({ baseURL: `${started.url}/v1`, apiKey: 'none', maxRetries: 0 });
});
afterAll(() => started[Symbol.asyncDispose]());

const messages = [{ role: 'user' as const, content: 'How much is it?' }];
const response_format = zodResponseFormat(Price, 'price');
const look = { toolCalls: [{ name: 'look', input: {} }], text: 'Let me look.' };

describe('the openai client', () => {
  it('parses the result, of which only the last text is told', async () => {
    const model = nextModel([look, { text: WRONG }, { text: TEXT }]);
    const completion = await client.chat.completions.parse({ model, messages, response_format });
    expect(completion.choices[0]?.message).toMatchObject({ parsed: VALUE, content: TEXT });
    expect(completion.choices[0]?.finish_reason).toBe('stop');
  });

  it('parses it from a stream, which tells it at the end', async () => {
    const model = nextModel([look, { text: TEXT }]);
    const stream = client.chat.completions.stream({ model, messages, response_format });
    expect((await stream.finalChatCompletion()).choices[0]?.message.parsed).toEqual(VALUE);
  });

  it('parses it also where the model gives it by a tool', async () => {
    started.service.simulator.script('gpt-4', [look, { toolCalls: [{ name: 'final_result', input: VALUE }] }]);
    const completion = await client.chat.completions.parse({ model: 'by-tool', messages, response_format });
    expect(completion.choices[0]?.message.parsed).toEqual(VALUE);
  });

  it('asks for a class that holds itself, and offers tools by such schemas, with an object at the root', async () => {
    const model = nextModel([{ text: '{"children":[]}' }]);
    const Node = { required: ['children'], properties: { children: { items: { $ref: '#/$defs/Node' } } } };
    const schema = { $ref: '#/$defs/Node', $defs: { Node } };
    const completion = await client.chat.completions.create({
      model,
      messages,
      tool_choice: 'auto',
      tools: [
        { type: 'function', function: { name: 'add', parameters: schema } },
        { type: 'function', function: { name: 'end', parameters: {} } },
      ],
      response_format: { type: 'json_schema', json_schema: { name: 'node', schema } },
    });
    expect(completion.choices[0]?.message.content).toBe('{"children":[]}');
    const sent = started.service.simulator.requests.findLast((request) => request.model === model);
    const whole = { type: 'object', $defs: { Node }, ...Node };
    const named = (name: string, inputSchema: object) => expect.objectContaining({ name, inputSchema });
    expect(sent?.request?.tools).toEqual(
      expect.arrayContaining([named('add', whole), named('end', { type: 'object' })]),
    );
  });

  it('gets any object, and goes on with the conversation', async () => {
    const model = nextModel([{ text: '{"any":1}' }, { text: 'More.' }]);
    const format = { type: 'json_object' as const };
    const first = await client.chat.completions.create({ model, messages, response_format: format });
    const [choice] = first.choices;
    if (choice === undefined) throw new Error('no choice');
    expect(choice.message.content).toBe('{"any":1}');
    const more = [...messages, choice.message, { role: 'user' as const, content: 'And?' }];
    const second = await client.chat.completions.create({ model, messages: more });
    expect(second.choices[0]?.message.content).toBe('More.');
    const sessions = await started.service.deps.db
      .selectFrom('sessions')
      .select('id')
      .where('agent_name', '=', model)
      .execute();
    expect(sessions).toHaveLength(1);
  });

  it('is told that no answer fitted', async () => {
    const model = nextModel([{ text: WRONG }, { text: WRONG }, { text: WRONG }]);
    await expect(client.chat.completions.parse({ model, messages, response_format })).rejects.toMatchObject({
      status: 422,
      code: 'output_invalid',
    });
  });

  it('chooses a tool for the first answer to each request, and for none after a call of the agent’s own', async () => {
    const weather = { type: 'function' as const, function: { name: 'weather', parameters: { type: 'object' } } };
    const model = nextModel([look, { toolCalls: [{ id: 'w', name: 'weather', input: {} }] }, { text: 'Sunny.' }]);
    const choice = { type: 'function' as const, function: { name: 'weather' } };
    const ask = (said: OpenAI.ChatCompletionMessageParam[]) =>
      client.chat.completions.create({ model, messages: said, tools: [weather], tool_choice: choice });
    const first = (await ask(messages)).choices[0]?.message;
    const id = first?.tool_calls?.[0]?.id ?? '';
    if (first === undefined) throw new Error('no message');
    const second = await ask([...messages, first, { role: 'tool', tool_call_id: id, content: 'sun' }]);
    expect(second.choices[0]?.message.content).toBe('Sunny.');
    const choices = started.service.simulator.requests
      .filter((request) => request.model === model)
      .map(({ request }) => JSON.stringify(request?.toolChoice ?? 'auto'));
    expect(choices).toEqual([expect.stringContaining('weather'), '"auto"', expect.stringContaining('weather')]);
  });
});

describe('the AI SDK', () => {
  const modelOf = (name: string) => createOpenAI({ baseURL: `${started.url}/v1`, apiKey: 'none' }).chat(name);
  const prompt = 'How much is it?';

  it('generates an object', async () => {
    const model = modelOf(nextModel([look, { text: TEXT }]));
    expect((await generateObject({ model, schema: Price, prompt })).object).toEqual(VALUE);
  });

  it('gives an output object, whole and as a stream', async () => {
    started.service.simulator.script('gpt-4', [{ text: TEXT }]);
    const model = modelOf('by-tool');
    const output = Output.object({ schema: Price });
    expect((await generateText({ model, output, prompt })).output).toEqual(VALUE);
    expect(await streamText({ model, output, prompt: 'And again?' }).output).toEqual(VALUE);
  });

  it('shows a chat the result that its agent gives, as data', async () => {
    started.service.simulator.script('with-output', [{ text: '{"total":12}' }]);
    const chat = started.chat('output', { body: { agent: 'with-output' } });
    await chat.sendMessage({ text: prompt });
    const [, answer] = chat.messages;
    expect(typesOf(answer)).toContain('data-output');
    const data = { type: 'data-output', id: 'output', data: { total: 12 } };
    expect(answer?.parts.find(({ type }) => type === 'data-output')).toEqual(data);
    const reloaded = await (await fetch(`${started.url}/api/chat/output/messages`)).json();
    expect(reloaded).toMatchObject({ messages: [{ role: 'user' }, { role: 'assistant' }] });
    expect((reloaded as { messages: { parts: unknown[] }[] }).messages[1]?.parts.at(-1)).toEqual(data);
  });
});

describe("LangChain's withStructuredOutput", () => {
  // npm ci --prefix test/facades/langchain
  const installed = path.join(import.meta.dirname, 'langchain/node_modules/@langchain/openai/dist/index.js');

  it.skipIf(!existsSync(installed)).each([
    ['jsonSchema', [look, { text: TEXT }]],
    ['functionCalling', [{ toolCalls: [{ name: 'price', input: VALUE }] }]],
    ['jsonMode', [{ text: TEXT }]],
  ] as const)('works by %s', async (method, replies) => {
    const { ChatOpenAI } = await import(pathToFileURL(installed).href);
    const model = nextModel(replies);
    const chat = new ChatOpenAI({
      model,
      apiKey: 'none',
      configuration: { baseURL: `${started.url}/v1` },
      maxRetries: 0,
    });
    const structured = chat.withStructuredOutput(Price, { name: 'price', method });
    expect(await structured.invoke('How much is it? Answer in JSON.')).toEqual(VALUE);
  });
});
