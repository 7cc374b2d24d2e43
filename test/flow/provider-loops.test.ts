import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, it } from 'vitest';
import { availableBackends } from '../support/backends.ts';
import { startTestService } from '../support/service.ts';

const SESSIONS = 5;

/** None of them says how long to wait. */
const FAILING: Readonly<Record<string, (response: ServerResponse) => unknown>> = {
  'breaks with 500': (response) => response.writeHead(500).end('{"error":{"message":"Oops"}}'),
  'is overloaded': (response) => response.writeHead(429).end('{"error":{"message":"Too many requests"}}'),
  'hangs up': (response) => response.destroy(),
  'ends its stream at once': (response) => response.writeHead(200, { 'content-type': 'text/event-stream' }).end(),
};

it.each(Object.keys(FAILING))('a provider that %s is asked by each run with growing pauses', async (kind) => {
  await using stack = new AsyncDisposableStack();
  let asked = 0;
  const server = createServer((_request, response) => {
    asked += 1;
    FAILING[kind]?.(response);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  stack.defer(() => {
    server.close();
    server.closeAllConnections();
  });
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  const environment = { OPENAI_API_KEY: 'of the test', OPENAI_BASE_URL: baseUrl };
  const [backend = 'postgres'] = availableBackends();
  const service = stack.use(await startTestService({ backend, environment }));
  const startedMs = performance.now();
  await service.startWorker();
  await Promise.all(
    Array.from({ length: SESSIONS }, async () => {
      await service.send(await service.createSession({ model: 'openai-chat/test', tools: [] }), 'Go');
    }),
  );
  await expect.poll(() => asked).toBeGreaterThan(SESSIONS * 2);
  // The pauses are at least half of 1, 2, 4, … seconds.
  const seconds = (performance.now() - startedMs) / 1_000;
  expect(asked).toBeLessThanOrEqual(SESSIONS * Math.ceil(Math.log2(2 * seconds + 2) + 1));
  const said = service.logged.filter((entry) => entry.event === 'step_failed' || 'error' in entry);
  // One for each attempt of each run.
  expect(said.length).toBeLessThanOrEqual(asked);
});
