import { createOpenAI } from '@ai-sdk/openai';
import { generateText } from 'ai';
import OpenAI from 'openai';
import { expect, test } from 'vitest';
import { startTestApi } from '../http/test-api.ts';

const CHAT = /openai\.chat\("<agent>"\).*client\.chat\.completions\.create/;
const ASK: readonly (readonly [string, (client: OpenAI) => PromiseLike<unknown>, RegExp])[] = [
  ['responses', (client) => client.responses.create({ model: 'coder', input: 'Hi' }), CHAT],
  ['the older completions', (client) => client.completions.create({ model: 'coder', prompt: 'Hi' }), CHAT],
  ['a thread', (client) => client.beta.threads.create(), /An assistant is an agent, a thread a session/],
  ['files', (client) => client.files.retrieve('file-1'), /Upload a file with POST \/v1\/blobs/],
  ['embeddings', (client) => client.embeddings.create({ model: 'coder', input: 'Hi' }), /Ask the provider itself/],
  ['images', (client) => client.images.generate({ model: 'coder', prompt: 'Hi' }), /Ask the provider itself/],
  ['moderations', (client) => client.moderations.create({ input: 'Hi' }), /Ask the provider itself/],
];

test.each(ASK)('the openai client that asks for %s is told what to use instead', async (_, ask, advice) => {
  await using api = await startTestApi();
  const client = new OpenAI({ baseURL: `${api.url}/v1`, apiKey: 'none', maxRetries: 0 });
  const refused = expect(Promise.resolve(ask(client))).rejects;
  await refused.toMatchObject({ status: 404, code: 'not_found', type: 'invalid_request_error' });
  await refused.toThrow(advice);
});

test('the AI SDK, whose default is the Responses API, is told that chat completions are meant', async () => {
  await using api = await startTestApi();
  const openai = createOpenAI({ baseURL: `${api.url}/v1`, apiKey: 'none' });
  await expect(generateText({ model: openai('coder'), prompt: 'Hi', maxRetries: 0 })).rejects.toThrow(CHAT);
});
