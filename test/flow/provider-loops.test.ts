import { once } from 'node:events';
import { mkdtempDisposableSync, writeFileSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it } from 'vitest';
import type { LogEvent } from '../../src/platform/log.ts';
import { availableBackends } from '../support/backends.ts';
import { startTestService } from '../support/service.ts';

const SESSIONS = 3;

type Failing = Readonly<{
  /** How it answers; none of them says how long to wait. Absent: nobody answers. */
  answer?: (response: ServerResponse) => unknown;
  baseUrl?: string;
  /** Nothing changes by asking again. */
  isPermanent?: true;
}>;

const FAILING: Readonly<Record<string, Failing>> = {
  breaks: { answer: (response) => response.writeHead(500).end('{"error":{"message":"Oops"}}') },
  overloaded: { answer: (response) => response.writeHead(429).end('{"error":{"message":"Too many requests"}}') },
  'hangs-up': { answer: (response) => response.destroy() },
  'ends-at-once': { answer: (response) => response.writeHead(200, { 'content-type': 'text/event-stream' }).end() },
  'knows-no-key': {
    answer: (response) => response.writeHead(401).end('{"error":{"message":"Wrong key"}}'),
    isPermanent: true,
  },
  refuses: {},
  // A name that nobody may have (RFC 6761).
  'has-no-address': { baseUrl: 'http://nowhere.invalid/v1' },
};

type StepFailed = Extract<LogEvent, { event: 'step_failed' }>;
const isFailure = (entry: LogEvent): entry is StepFailed => entry.event === 'step_failed';

async function closedUrl(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return `http://127.0.0.1:${port}/v1`;
}

it('a provider that fails is asked by each run with growing pauses, or once, and each attempt is said once', async () => {
  await using stack = new AsyncDisposableStack();
  const asked = new Map<string, number>();
  const server = createServer((request, response) => {
    const [, name = ''] = (request.url ?? '').split('/');
    // What a server of unknown make is asked for its limits is asked once.
    if (request.url?.endsWith('/chat/completions') === true) asked.set(name, (asked.get(name) ?? 0) + 1);
    FAILING[name]?.answer?.(response);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  stack.defer(() => {
    server.close();
    server.closeAllConnections();
  });
  const at = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const folder = stack.use(mkdtempDisposableSync(path.join(tmpdir(), 'baton-loops-')));
  const file = path.join(folder.path, 'providers.json');
  const closed = await closedUrl();
  const providers = Object.entries(FAILING).map(([name, { answer, baseUrl }]) => {
    const url = baseUrl ?? (answer === undefined ? closed : `${at}/${name}/v1`);
    return [name, { kind: 'openai-compatible', baseUrl: url }] as const;
  });
  writeFileSync(file, JSON.stringify({ providers: Object.fromEntries(providers) }));
  const [backend = 'postgres'] = availableBackends();
  const service = stack.use(await startTestService({ backend, environment: { BATON_PROVIDERS_FILE: file } }));
  const startedMs = performance.now();
  await service.startWorker();
  const runsOf = new Map<string, string[]>();
  for (const name of Object.keys(FAILING)) {
    const sent = Array.from({ length: SESSIONS }, async () =>
      service.send(await service.createSession({ model: `${name}/test`, tools: [] }), 'Go'),
    );
    runsOf.set(
      name,
      (await Promise.all(sent)).map(({ runId }) => runId),
    );
  }
  const saidOf = (name: string) =>
    service.logged.filter((entry) => isFailure(entry) && runsOf.get(name)?.includes(entry.runId));
  const attemptsOf = (name: string): number =>
    FAILING[name]?.answer === undefined ? saidOf(name).length : (asked.get(name) ?? 0);

  for (const [name, { isPermanent }] of Object.entries(FAILING)) {
    const least = isPermanent === true ? SESSIONS : SESSIONS * 2 + 1;
    await expect.poll(() => attemptsOf(name), { message: name }).toBeGreaterThanOrEqual(least);
  }
  for (const runId of runsOf.get('knows-no-key') ?? []) await service.ended(runId);
  // The pauses are at least half of 1, 2, 4, … seconds.
  const seconds = (performance.now() - startedMs) / 1_000;
  const most = SESSIONS * Math.ceil(Math.log2(2 * seconds + 2) + 1);
  for (const [name, { isPermanent }] of Object.entries(FAILING)) {
    expect(attemptsOf(name), name).toBeLessThanOrEqual(isPermanent === true ? SESSIONS : most);
    expect(saidOf(name).length, name).toBeLessThanOrEqual(attemptsOf(name));
  }
});
