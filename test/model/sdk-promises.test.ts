// What Baton relies on in the AI SDK: a stream that is cut is not taken for a whole answer, and runs no tool.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { type LanguageModel, streamText, tool } from 'ai';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';

type Frames = readonly unknown[];

/** The frames of a protocol up to a text, and up to a whole call. No frame says that the answer has ended. */
type Protocol = Readonly<{
  name: string;
  model: (baseURL: string) => LanguageModel;
  text: Frames;
  call: Frames;
  finishReason: string;
}>;

const chat = (delta: unknown): unknown => ({
  id: 'c',
  object: 'chat.completion.chunk',
  created: 1,
  model: 'm',
  choices: [{ index: 0, delta, finish_reason: null }],
});
const CHAT = {
  text: [chat({ role: 'assistant', content: 'Hel' })],
  call: [
    chat({
      role: 'assistant',
      tool_calls: [{ index: 0, id: 'call_1', type: 'function', function: { name: 'pay', arguments: '{"amount":1}' } }],
    }),
  ],
};
const message = {
  id: 'm',
  type: 'message',
  role: 'assistant',
  model: 'm',
  content: [],
  usage: { input_tokens: 1, output_tokens: 1 },
};
const response = { id: 'resp_1', created_at: 1, model: 'm', service_tier: null };
const item = { type: 'function_call', id: 'fc_1', call_id: 'call_1', name: 'pay' };

const PROTOCOLS: readonly Protocol[] = [
  {
    name: 'Responses',
    model: (baseURL) => createOpenAI({ baseURL, apiKey: 'k' })('gpt-5.4-mini'),
    text: [
      { type: 'response.created', response },
      { type: 'response.output_item.added', output_index: 0, item: { type: 'message', id: 'msg_1' } },
      { type: 'response.output_text.delta', item_id: 'msg_1', delta: 'Hel' },
    ],
    call: [
      { type: 'response.created', response },
      { type: 'response.output_item.added', output_index: 0, item: { ...item, arguments: '' } },
      {
        type: 'response.output_item.done',
        output_index: 0,
        item: { ...item, arguments: '{"amount":1}', status: 'completed' },
      },
    ],
    finishReason: 'interrupted',
  },
  {
    name: 'chat completions',
    model: (baseURL) => createOpenAI({ baseURL, apiKey: 'k' }).chat('gpt-5.4-mini'),
    ...CHAT,
    finishReason: 'interrupted',
  },
  {
    name: 'messages',
    model: (baseURL) => createAnthropic({ baseURL, apiKey: 'k' })('claude-sonnet-4-5'),
    text: [
      { type: 'message_start', message },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hel' } },
    ],
    call: [
      { type: 'message_start', message },
      {
        type: 'content_block_start',
        index: 0,
        content_block: { type: 'tool_use', id: 'call_1', name: 'pay', input: {} },
      },
      { type: 'content_block_delta', index: 0, delta: { type: 'input_json_delta', partial_json: '{"amount":1}' } },
      { type: 'content_block_stop', index: 0 },
    ],
    finishReason: 'interrupted',
  },
  {
    name: 'compatible completions',
    model: (baseURL) => createOpenAICompatible({ name: 'own', baseURL, apiKey: 'k' })('m'),
    ...CHAT,
    finishReason: 'error',
  },
];

async function serve(frames: Frames): Promise<AsyncDisposable & { url: string }> {
  const server = createServer((_request, answer) => {
    answer.writeHead(200, { 'content-type': 'text/event-stream' });
    answer.end(frames.map((frame) => `data: ${JSON.stringify(frame)}\n\n`).join(''));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

describe.each(PROTOCOLS)('a stream of $name that ends without its end', ({ model, text, call, finishReason }) => {
  it('is not said to be whole', async () => {
    await using server = await serve(text);
    const answer = streamText({ model: model(server.url), prompt: 'Hello', maxRetries: 0, onError: () => undefined });
    expect([await answer.text, await answer.finishReason]).toEqual(['Hel', finishReason]);
  });

  it('runs no tool, although the call is whole', async () => {
    await using server = await serve(call);
    let payments = 0;
    const pay = tool({ inputSchema: z.object({ amount: z.number() }), execute: async () => `paid ${++payments}` });
    const options = { prompt: 'Pay', maxRetries: 0, onError: () => undefined, tools: { pay } };
    const answer = streamText({ model: model(server.url), ...options });
    expect((await answer.toolCalls).map(({ toolName }) => toolName)).toEqual(['pay']);
    expect(payments).toBe(0);
  });
});
