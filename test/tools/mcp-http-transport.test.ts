import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { expect, it } from 'vitest';
import { MAX_RESULT_BYTES } from '../../src/domain/tunables.ts';
import type { TakeRoom } from '../../src/platform/arriving-bytes.ts';
import { eventually } from '../support/eventually.ts';
import { createMcpFixture } from './mcp-fixture.ts';

type OnCall = (response: ServerResponse) => unknown;

/** A server whose streams cannot be resumed: it gives its events no ids. */
async function startServer(onCall: OnCall, redirect: (request: IncomingMessage) => string | null = () => null) {
  const sessions = new Map<string, StreamableHTTPServerTransport>();
  const seen: IncomingMessage[] = [];
  let calling: ServerResponse | undefined;
  const begin = async (): Promise<StreamableHTTPServerTransport> => {
    const mcp = new Server({ name: 'http', version: '1' }, { capabilities: { tools: {} } });
    mcp.setRequestHandler(ListToolsRequestSchema, () => ({
      tools: [{ name: 'run', inputSchema: { type: 'object' } }],
    }));
    mcp.setRequestHandler(CallToolRequestSchema, async () => {
      if (calling === undefined) throw new Error('no call');
      return { content: [{ type: 'text', text: String(await onCall(calling)) }] };
    });
    const transport: StreamableHTTPServerTransport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => void sessions.set(id, transport),
    });
    await mcp.connect(transport as Parameters<typeof mcp.connect>[0]);
    return transport;
  };
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    seen.push(request);
    const location = redirect(request);
    if (location !== null) return void response.writeHead(307, { location }).end();
    if (request.method === 'POST') calling = response;
    const transport = sessions.get(String(request.headers['mcp-session-id'])) ?? (await begin());
    await transport.handleRequest(request, response);
  };
  const server = createServer((request, response) => void handle(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    seen,
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
    },
  };
}

it('sends the headers that are named, and says good-bye', async () => {
  await using server = await startServer(() => 'ok');
  const config = { url: server.url, headersFromEnv: { authorization: 'DOCS_TOKEN' } };
  const fixture = createMcpFixture({ docs: config }, { DOCS_TOKEN: 'Bearer abc' });
  const agent = await fixture.pin([{ mcp: 'docs' }]);
  expect(await fixture.call(agent, 'docs__run')).toBe('ok');
  await fixture[Symbol.asyncDispose]();
  expect(new Set(server.seen.map(({ headers }) => headers.authorization))).toEqual(new Set(['Bearer abc']));
  expect(server.seen.at(-1)?.method).toBe('DELETE');
  await using poor = createMcpFixture({ docs: config }, {});
  await expect(poor.toolsOf(agent)).rejects.toThrow(
    'mcpServers.docs.headersFromEnv.authorization: the environment variable DOCS_TOKEN is not set',
  );
});

const never = () => new Promise<never>(() => undefined);
const begun = (response: ServerResponse) => eventually(async () => response.headersSent, 'the answer has begun');

it.each<[string, OnCall]>([
  [
    'breaks',
    (response) =>
      begun(response)
        .then(() => response.socket?.destroy())
        .then(never),
  ],
  [
    'ends',
    (response) =>
      begun(response)
        .then(() => response.end())
        .then(never),
  ],
])(
  'a call whose answer %s fails at once, its outcome unknown, and the connection serves the next',
  async (_how, first) => {
    let calls = 0;
    await using server = await startServer((response) => (calls++ === 0 ? first(response) : 'ok'));
    await using fixture = createMcpFixture({ docs: { url: server.url, timeoutMs: 600_000 } });
    const agent = await fixture.pin([{ mcp: 'docs' }]);
    await expect(fixture.call(agent, 'docs__run')).rejects.toThrow(
      /docs was lost\. The outcome of the call is unknown/,
    );
    expect(await fixture.call(agent, 'docs__run')).toBe('ok');
  },
);

it('a call whose answer is larger than may be is told so, and the connection stands', async () => {
  let calls = 0;
  await using server = await startServer(() => (calls++ === 0 ? 'x'.repeat(17 * 1024 * 1024) : 'ok'));
  await using fixture = createMcpFixture({ docs: { url: server.url, trust: true } });
  const agent = await fixture.pin([{ mcp: 'docs' }]);
  await expect(fixture.call(agent, 'docs__run')).rejects.toThrow(
    /is larger than 16777216 bytes.*probably taken effect/,
  );
  expect(await fixture.call(agent, 'docs__run')).toBe('ok');
  const beginnings = server.seen.filter(
    ({ headers: { 'mcp-session-id': session, 'mcp-method': method } }) => session === undefined && method === undefined,
  );
  expect(beginnings).toHaveLength(1);
});

it('an answer waits for its room', async () => {
  await using server = await startServer(() => 'x'.repeat(1_000_000));
  await using fixture = createMcpFixture({ docs: { url: server.url, trust: true } });
  const agent = await fixture.pin([{ mcp: 'docs' }]);
  const asked: [number, number][] = [];
  const takeRoom: TakeRoom = async (bytes, mostBytes) => void asked.push([bytes, mostBytes]);
  expect(await fixture.call(agent, 'docs__run', {}, undefined, undefined, takeRoom)).toHaveLength(1_000_000);
  expect(asked.at(-1)?.[0]).toBeGreaterThan(1_000_000);
  expect(asked.at(-1)?.[1]).toBe(MAX_RESULT_BYTES);
});

const headersFromEnv = { 'x-api-key': 'DOCS_TOKEN' };
const environment = { DOCS_TOKEN: 'secret' };

it('sends nothing to another origin that a server redirects to, and names it', async () => {
  await using other = await startServer(() => 'ok');
  await using server = await startServer(never, () => `${other.url}?token=abc`);
  await using fixture = createMcpFixture({ docs: { url: server.url, headersFromEnv } }, environment);
  await expect(fixture.pin([{ mcp: 'docs' }])).rejects.toMatchObject({
    code: 'tools_unavailable',
    cause: { message: expect.stringContaining(`Redirect to ${other.url} not followed`) },
  });
  expect(server.seen.map(({ headers }) => headers['x-api-key'])).toEqual(['secret', 'secret']);
  expect(other.seen).toEqual([]);
});

it('follows a redirect within the origin with the request as it was', async () => {
  await using server = await startServer(
    () => 'ok',
    ({ url }) => (url === '/mcp' ? '/mcp/' : null),
  );
  await using fixture = createMcpFixture({ docs: { url: server.url, headersFromEnv } }, environment);
  const agent = await fixture.pin([{ mcp: 'docs' }]);
  expect(await fixture.call(agent, 'docs__run')).toBe('ok');
  const arrived = server.seen.filter(({ url }) => url === '/mcp/');
  expect(new Set(arrived.map(({ headers }) => headers['x-api-key']))).toEqual(new Set(['secret']));
});
