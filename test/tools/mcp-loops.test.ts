import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { expect, it } from 'vitest';
import { z } from 'zod';
import { agentSchema } from '../../src/agents/agent.ts';
import { sayOnceAMinute } from '../../src/platform/once-a-minute.ts';
import { createMcpFixture } from './mcp-fixture.ts';

type Handle = (request: IncomingMessage, response: ServerResponse) => unknown;

/** A server that counts its requests. */
async function startServer(handle: Handle) {
  const seen: string[] = [];
  const server = createServer((request, response) => {
    seen.push(request.method ?? '');
    void handle(request, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    seen,
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
    },
  };
}

const messageSchema = z.object({ id: z.union([z.number(), z.string()]).optional(), method: z.string() });

const ANSWERS: Readonly<Record<string, object>> = {
  initialize: {
    protocolVersion: '2025-11-25',
    capabilities: { tools: {} },
    serverInfo: { name: 'hasty', version: '1' },
  },
  'tools/list': { tools: [] },
};

/** Answers as a server should, but ends each stream at once and wants the next one without a pause. */
const hasty: Handle = async (request, response) => {
  if (request.method === 'GET') {
    return response.writeHead(200, { 'content-type': 'text/event-stream' }).end('retry: 0\nid: 1\ndata:\n\n');
  }
  const { id, method } = messageSchema.parse(await json(request));
  if (id === undefined) return response.writeHead(202).end();
  const answer = { jsonrpc: '2.0', id, result: ANSWERS[method] };
  return response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
};

it('a server that ends each stream at once is asked for the next with pauses', async () => {
  await using server = await startServer(hasty);
  await using fixture = createMcpFixture({ hasty: { url: server.url } });
  await fixture.pin([{ mcp: 'hasty' }]);
  const startedMs = performance.now();
  const streams = (): number => server.seen.filter((method) => method === 'GET').length;
  await expect.poll(streams).toBeGreaterThan(3);
  expect(streams()).toBeLessThan(10 + (performance.now() - startedMs) / 100);
});

const FAILING: Readonly<Record<string, Handle | 'closed' | 'https'>> = {
  'refuses connections': 'closed',
  'speaks no TLS': 'https',
  'breaks with 500': (_request, response) => response.writeHead(500).end('Oops'),
  'has enough requests': (_request, response) => response.writeHead(429).end('later'),
  'is down': (request) => request.destroy(),
  'wants a login': (_request, response) =>
    response.writeHead(401, { 'www-authenticate': 'Bearer resource_metadata="http://127.0.0.1/"' }).end(),
  'answers garbage': (_request, response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<p>Hello'),
  'ends without an answer': (_request, response) =>
    response.writeHead(200, { 'content-type': 'text/event-stream' }).end(),
  'is overloaded': (_request, response) => response.writeHead(503).end('busy'),
};

it.each(Object.keys(FAILING))('a server that %s is asked with pauses and said once, whoever asks', async (kind) => {
  const failing = FAILING[kind] ?? hasty;
  await using server = await startServer(typeof failing === 'string' ? hasty : failing);
  if (failing === 'closed') await server[Symbol.asyncDispose]();
  const url = failing === 'https' ? server.url.replace('http:', 'https:') : server.url;
  await using fixture = createMcpFixture({ broken: { url } });
  let isOver = false;
  const startedMs = performance.now();
  const asking = Array.from({ length: 20 }, async () => {
    while (!isOver) await fixture.pin([{ mcp: 'broken' }]).catch(() => undefined);
  });
  const failures = (): number => fixture.logged.filter(({ event }) => event === 'mcp_server_failed').length;
  await expect.poll(failures).toBeGreaterThan(3);
  isOver = true;
  // The pauses are at least half of 0.25, 0.5, 1, … seconds.
  const seconds = (performance.now() - startedMs) / 1_000;
  expect(failures()).toBeLessThan(2 + Math.log2(1 + 8 * seconds));
  expect(server.seen.length).toBeLessThan(4 * failures());
  await fixture[Symbol.asyncDispose]();
  await Promise.all(asking);

  const said: object[] = [];
  using patient = sayOnceAMinute((_level, event) => void said.push(event));
  for (const event of fixture.logged) patient.log('warn', event);
  expect(said.length).toBeLessThan(4);
});

it('a server that never answers is asked once, whoever waits for it', async () => {
  await using server = await startServer(() => undefined);
  await using fixture = createMcpFixture({ hanging: { url: server.url } });
  const agent = agentSchema.parse({ name: 'tester', model: 'simulated/test', tools: [{ mcp: 'hanging' }] });
  const errors = new Set<string>();
  for (let round = 0; round < 3; round++) {
    const impatient = Array.from({ length: 20 }, () =>
      fixture.servers.pin(agent, new AbortController().signal, 100).catch((error: Error) => errors.add(error.message)),
    );
    await Promise.all(impatient);
  }
  expect([...errors]).toEqual(['The MCP server hanging did not list its tools within 100 ms.']);
  expect(server.seen).toEqual(['POST']);
  expect(fixture.logged).toEqual([]);
});
