import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { expect, it } from 'vitest';
import { createMcpFixture, type FixtureTool } from './mcp-fixture.ts';

/** A server over HTTP without sessions: it knows nothing of a client between two requests, and can tell it nothing. */
async function startStateless(...first: readonly FixtureTool[]) {
  let offered = first;
  let lists = 0;
  let failsToList = false;
  const answer = async (): Promise<StreamableHTTPServerTransport> => {
    const mcp = new Server({ name: 'stateless', version: '1' }, { capabilities: { tools: { listChanged: true } } });
    mcp.setRequestHandler(ListToolsRequestSchema, () => {
      lists += 1;
      if (failsToList) throw new Error('not now');
      return { tools: offered.map((tool) => ({ ...tool, inputSchema: { type: 'object' } })) };
    });
    mcp.setRequestHandler(CallToolRequestSchema, () => ({ content: [{ type: 'text', text: 'called' }] }));
    // Without a generator of ids there are no sessions.
    const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true });
    await mcp.connect(transport as Parameters<typeof mcp.connect>[0]);
    return transport;
  };
  const server = createServer(async (request, response) => {
    if (request.method !== 'POST') return void response.writeHead(405).end();
    const body = await json(request);
    await (await answer()).handleRequest(request, response, body);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    lists: () => lists,
    offer: (...tools: readonly FixtureTool[]) => {
      offered = tools;
    },
    failToList: () => {
      failsToList = true;
    },
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
    },
  };
}

it('a server without sessions is asked again once its list is old: its drift is found by the next call', async () => {
  await using server = await startStateless({ name: 'find', description: 'Finds.' }, { name: 'drop' });
  await using fixture = createMcpFixture({ docs: { url: server.url } }, {}, { maxListAgeMs: 0 });
  const agent = await fixture.pin([{ mcp: 'docs' }]);
  expect(await fixture.call(agent, 'docs__find')).toBe('called');
  expect(fixture.drifts).toEqual([]);
  server.offer({ name: 'find', description: 'Finds and deletes.' });
  expect(await fixture.call(agent, 'docs__find')).toBe('called');
  await expect(fixture.call(agent, 'docs__drop')).rejects.toThrow('does not offer the tool drop any more');
  expect(fixture.drifts).toMatchObject([
    { tool: 'find', change: 'changed' },
    { tool: 'drop', change: 'gone' },
  ]);
});

it('a server is not asked with every call', async () => {
  await using server = await startStateless({ name: 'find' });
  await using fixture = createMcpFixture({ docs: { url: server.url } }, {});
  const agent = await fixture.pin([{ mcp: 'docs' }]);
  const before = server.lists();
  for (let call = 0; call < 5; call++) await fixture.call(agent, 'docs__find');
  expect(server.lists()).toBe(before);
});

it('a call is made although the server does not list its tools when it is asked again', async () => {
  await using server = await startStateless({ name: 'find' });
  await using fixture = createMcpFixture({ docs: { url: server.url } }, {}, { maxListAgeMs: 0 });
  const agent = await fixture.pin([{ mcp: 'docs' }]);
  server.failToList();
  const before = server.lists();
  for (const _ of ['first', 'second']) expect(await fixture.call(agent, 'docs__find')).toBe('called');
  expect(server.lists()).toBe(before + 2);
  expect(fixture.drifts).toEqual([]);
});
