import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { createMcpHandler, type Result, Server, type Tool } from '@modelcontextprotocol/server';
import { describe, expect, it } from 'vitest';
import { toQuestion } from '../../src/tools/mcp/unfinished.ts';
import { createMcpFixture } from './mcp-fixture.ts';

type Called = Readonly<{ headers: IncomingHttpHeaders; params: Readonly<Record<string, unknown>> }>;

/** A server of 2026-07-28 alone, by MCP's own package. */
async function startModern(tools: readonly Tool[], answer: (called: Called) => Result) {
  const calls: Called[] = [];
  const methods: string[] = [];
  const open = (headers: IncomingHttpHeaders) => {
    const mcp = new Server({ name: 'modern', version: '1' }, { capabilities: { tools: {} } });
    mcp.setRequestHandler('tools/list', () => ({ tools: [...tools] }));
    mcp.fallbackRequestHandler = async ({ params = {} }, { mcpReq }) => {
      const called = { headers, params: { ...params, requestState: mcpReq.requestState() } };
      calls.push(called);
      return answer(called);
    };
    return mcp;
  };
  const server = createServer(async (request, response) => {
    const body = await buffer(request);
    methods.push(String(request.headers['mcp-method'] ?? request.method));
    const { fetch } = createMcpHandler(() => open(request.headers), { legacy: 'reject' });
    const init = { method: request.method ?? '', headers: new Headers(request.headers as Record<string, string>) };
    const made = await fetch(new Request('http://127.0.0.1/mcp', body.length === 0 ? init : { ...init, body }));
    response.writeHead(made.status, Object.fromEntries(made.headers)).end(Buffer.from(await made.arrayBuffer()));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    calls,
    methods,
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
    },
  };
}

const text = (words: string): Result => ({ content: [{ type: 'text', text: words }] });
const run: Tool = { name: 'run', inputSchema: { type: 'object', properties: { n: { type: 'integer' } } } };

describe('a server of 2026-07-28', () => {
  it('is spoken to without a handshake, and its answers are read as those of the older ones', async () => {
    await using server = await startModern([run], () => text('done'));
    await using fixture = createMcpFixture({ docs: { url: server.url } });
    const agent = await fixture.pin([{ mcp: 'docs' }]);
    expect(await fixture.call(agent, 'docs__run', { n: 1 })).toBe('done');
    expect(server.methods).toEqual(['server/discover', 'tools/list', 'tools/list', 'tools/call']);
    const [called] = server.calls;
    expect(called?.headers).toMatchObject({ 'mcp-protocol-version': '2026-07-28', 'mcp-name': 'run' });
    expect(called?.params).toMatchObject({ arguments: { n: 1 }, _meta: { 'baton/tenantId': expect.any(String) } });
  });

  it('tells a refusal in its own words', async () => {
    await using server = await startModern([run], () => {
      throw Object.assign(new Error('the ledger is closed'), { code: -32_602 });
    });
    await using fixture = createMcpFixture({ docs: { url: server.url } });
    const agent = await fixture.pin([{ mcp: 'docs' }]);
    await expect(fixture.call(agent, 'docs__run')).rejects.toThrow('the ledger is closed');
    expect(server.calls).toHaveLength(1);
  });

  it('gets the arguments that it wants in headers, and a tool that wants it wrongly is left out alone', async () => {
    const schema = (type: string) => ({
      type: 'object' as const,
      properties: { city: { type, 'x-mcp-header': 'City' }, other: { type: 'string', 'x-mcp-header': 'Other' } },
    });
    const tools = [
      { name: 'run', inputSchema: schema('string') },
      { name: 'wrong', inputSchema: schema('number') },
    ];
    await using server = await startModern(tools, () => text('done'));
    await using fixture = createMcpFixture({ docs: { url: server.url } });
    const agent = await fixture.pin([{ mcp: 'docs' }]);
    expect(await fixture.servers.leftOut(agent)).toEqual([
      { server: 'docs', tool: 'wrong', reason: expect.stringContaining('x-mcp-header is only for strings') },
    ]);
    for (const city of ['Bern', 'Zürich']) await fixture.call(agent, 'docs__run', { city });
    const sent = server.calls.map(({ headers }) => [headers['mcp-param-city'], headers['mcp-param-other']]);
    expect(sent).toEqual([
      ['Bern', undefined],
      ['=?base64?WsO8cmljaA==?=', undefined],
    ]);
  });

  it('is asked again with its state, and what no person can give is told to the model', async () => {
    const asks = { model: { method: 'sampling/createMessage', params: { message: 'Which account?' } } };
    await using server = await startModern([run, { ...run, name: 'ask' }], ({ params }) => {
      if (params['requestState'] === 'later') return text('done');
      const inputs = params['name'] === 'ask' ? { inputRequests: asks } : {};
      return { resultType: 'input_required', requestState: 'later', ...inputs };
    });
    await using fixture = createMcpFixture({ docs: { url: server.url } });
    const agent = await fixture.pin([{ mcp: 'docs' }]);
    expect(await fixture.call(agent, 'docs__run')).toBe('done');
    await expect(fixture.call(agent, 'docs__ask')).rejects.toThrow(/cannot give it.*Which account\?/);
    expect(server.calls).toHaveLength(3);
  });
});

it('a server whose revisions Baton does not speak is told with them', async () => {
  const server = createServer(async (request, response) => {
    const { id, method, params } = JSON.parse(String(await buffer(request))) as Record<string, unknown>;
    const data = { supported: ['2031-01-01'], requested: JSON.stringify(params ?? method) };
    const error = { code: -32_022, message: 'Unsupported protocol version', data };
    response.writeHead(400, { 'content-type': 'application/json' }).end(JSON.stringify({ jsonrpc: '2.0', id, error }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  await using _closing = { [Symbol.asyncDispose]: async () => void server.close() };
  const { port } = server.address() as AddressInfo;
  await using fixture = createMcpFixture({ docs: { url: `http://127.0.0.1:${port}/mcp` } });
  await expect(fixture.pin([{ mcp: 'docs' }])).rejects.toThrow(/speaks the revisions 2031-01-01/);
});

it.each([
  ['https://example.com/login', true],
  ['data:text/plain,hello', false],
  ['nowhere', false],
])('a question that leads people to %s is asked: %s', (url, isAsked) => {
  const page = { method: 'elicitation/create', params: { mode: 'url', message: 'Log in', url } };
  expect(toQuestion({ page }, {}) !== null).toBe(isAsked);
});
