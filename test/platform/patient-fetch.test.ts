import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { Agent, getGlobalDispatcher, setGlobalDispatcher } from 'undici';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createModels } from '../../src/model/providers.ts';
import { streamAnswer } from '../../src/model/stream-answer.ts';
import { createHttpTransport } from '../../src/tools/mcp/http-transport.ts';

const CHUNKS = [
  { delta: { content: 'Slow.' }, finish_reason: null },
  { delta: {}, finish_reason: 'stop' },
];

let arrived = Promise.withResolvers<void>();
let release = Promise.withResolvers<void>();

/** Answers once it is released: with headers only then, or with headers at once and a silent body. */
const server = createServer(async (request, response) => {
  let raw = '';
  for await (const piece of request) raw += piece;
  const body = raw === '' ? {} : JSON.parse(raw);
  if (request.method !== 'POST') return response.writeHead(405).end();
  if (body.jsonrpc !== undefined && body.id === undefined) return response.writeHead(202).end();
  const isSilent = request.url?.startsWith('/silent') === true;
  const type = body.jsonrpc === undefined ? 'text/event-stream' : 'application/json';
  if (isSilent) response.writeHead(200, { 'content-type': type }).flushHeaders();
  arrived.resolve();
  await release.promise;
  if (!isSilent) response.writeHead(200, { 'content-type': type });
  if (body.jsonrpc !== undefined) {
    const result = { protocolVersion: '2025-11-25', capabilities: {}, serverInfo: { name: 'slow', version: '1' } };
    return response.end(JSON.stringify({ jsonrpc: '2.0', id: body.id, result }));
  }
  for (const choice of CHUNKS) response.write(`data: ${JSON.stringify({ choices: [{ index: 0, ...choice }] })}\n\n`);
  return response.end('data: [DONE]\n\n');
});

beforeEach(() => {
  arrived = Promise.withResolvers();
  release = Promise.withResolvers();
});

const before = getGlobalDispatcher();
let origin = '';
beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  // Those of Node are 300 seconds: a test cannot wait for them.
  setGlobalDispatcher(new Agent({ headersTimeout: 1, bodyTimeout: 1 }));
});
afterAll(() => {
  setGlobalDispatcher(before);
  server.closeAllConnections();
  server.close();
});

/** Waits until the request has come, and the global fetch has given up on the same address. */
async function givenUp(path: string): Promise<void> {
  await arrived.promise;
  const asked = fetch(`${origin}${path}`, { method: 'POST', body: '{}' }).then((response) => response.text());
  await expect(asked).rejects.toThrow();
  release.resolve();
}

describe.each(['/late', '/silent'])('an answer that comes when the global fetch has given up (%s)', (path) => {
  it('is awaited from a provider', async () => {
    const provider = { name: 'slow', kind: 'openai-compatible' as const, baseUrl: `${origin}${path}`, headers: {} };
    const { model } = createModels({ providers: [{ ...provider, background: 'never' }] })('slow/m');
    const types: string[] = [];
    const answer = streamAnswer(
      {
        model,
        prompt: { messages: [{ role: 'user', content: 'Hi' }] },
        tools: [],
        settings: { maxOutputTokens: 10, providerOptions: {} },
        signal: new AbortController().signal,
      },
      { onPart: ({ type }) => void types.push(type), onEnd: () => undefined },
    );
    await givenUp(path);
    expect(await answer).toMatchObject({ end: { kind: 'ended' } });
    expect(types).toContain('text-delta');
  });
});

it('an MCP server that is slow to answer is awaited', async () => {
  const { transport } = createHttpTransport(new URL(`${origin}/late`), {}, 1_000_000);
  const client = new Client({ name: 'test', version: '1' });
  const connected = client.connect(transport, { timeout: 60_000 }).then(() => client.getServerVersion()?.name);
  await givenUp('/late');
  expect(await connected).toBe('slow');
  await client.close();
});
