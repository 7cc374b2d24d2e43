import OpenAI from 'openai';
import { expect, test } from 'vitest';
import { startTestApi } from '../http/test-api.ts';

const CHAT = /openai\("<agent>"\).*client\.responses\.create/;
const ASK: readonly (readonly [string, (client: OpenAI) => PromiseLike<unknown>, RegExp])[] = [
  ['a conversation', (client) => client.conversations.retrieve('c'), /A conversation is a session/],
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
