import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { formatCallId, formatId } from '../../src/domain/ids.ts';
import { MAX_JSON_VALUES } from '../../src/domain/tunables.ts';
import { readOpenCalls } from '../../src/store/transcript/open-calls.ts';
import { type DocumentedRoute, readRoutes, readSchemas } from '../http/documented-routes.ts';
import { anyBackend } from '../support/backends.ts';
import { eventually } from '../support/eventually.ts';
import { createRandom } from '../support/random.ts';
import { startTestService, type TestService } from '../support/service.ts';
import { startWorkerProcess, type WorkerProcess } from '../support/worker-process.ts';
import { type LargeBody, largeBodies } from './large-bodies.ts';

// `npm run fuzz` sends every body and judges the delays of the event loop. The short form sends some bodies, and judges
// only the answers and the number of mistakes.
const REQUESTS = Number(process.env['BATON_FUZZ_REQUESTS'] ?? 800);
const IS_LONG = REQUESTS > 800;
const SAMPLE = 40;
const SEED = process.env['BATON_FUZZ_SEED'] ?? '7';
const WITHIN_MS = 7_200_000;

/** A request of any shape holds the event loop for this long at most. */
const MAX_HELD_MS = 100;
/** Other work of the machine delays the loop as well, but not in each try: the shortest delay of all tries counts. */
const TRIES = 5;

const PRELOAD = fileURLToPath(new URL('watch-loop.ts', import.meta.url));
const watchedSchema = z.object({ event: z.literal('loop_watched'), heldMs: z.number(), issues: z.int() });
type Watched = z.infer<typeof watchedSchema>;

const ask = { name: 'ask', description: 'Asks the user.', inputSchema: z.object({ place: z.string() }) };

/** The service with an API process that reports the delays of its event loop. */
async function startWatchedApi() {
  await using stack = new AsyncDisposableStack();
  const agentsDir = await mkdtemp(path.join(tmpdir(), 'baton-fuzz-'));
  stack.defer(() => rm(agentsDir, { recursive: true }));
  await writeFile(path.join(agentsDir, 'coder.yaml'), 'name: coder\nmodel: simulated/coder\n');
  const service = stack.use(await startTestService({ backend: anyBackend(), tools: [ask] }));
  service.simulator.script('test', ({ messages }) =>
    messages.at(-1)?.role === 'user' ? { toolCalls: [{ name: 'ask', input: { place: 'x' } }] } : { text: 'Done.' },
  );
  service.simulator.script('coder', () => ({ text: 'Done.' }));
  await service.startWorker();
  const environment = { ...service.environment, BATON_PORT: '0', BATON_AGENTS_DIR: agentsDir };
  const api = stack.use(await startWorkerProcess('api', environment, ['--import', PRELOAD]));
  const owned = stack.move();
  return { service, api, url: api.url ?? '', [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** Reads the longest delay of the process's event loop, and its number of mistakes, since the last question. */
async function readLoop({ pid, logged }: WorkerProcess): Promise<Watched> {
  const from = logged.length;
  process.kill(pid, 'SIGUSR2');
  return eventually(async () => {
    const said = logged.slice(from).map((entry) => watchedSchema.safeParse(entry));
    return said.find(({ success }) => success)?.data ?? null;
  }, 'the process says how its loop fared');
}

/** The route's path with ids of new things that it can change: each request may use them up. */
async function pathOf(service: TestService, route: DocumentedRoute): Promise<string> {
  const session = await service.createSession();
  const isAboutRun = route.path.includes('/runs/') || route.path.includes('{messageId}');
  if (!isAboutRun) return route.path.replace('{id}', formatId('session', session));
  const { runId } = await service.send(session, 'Go');
  const [call] = await eventually(async () => {
    const calls = await readOpenCalls(service.deps.db, [runId]);
    return calls.length > 0 ? calls : null;
  }, 'the run waits for an output');
  const { messageId } = await service.send(session, 'More');
  return route.path
    .replace('{id}', route.path.includes('/runs/') ? formatId('run', runId) : formatId('session', session))
    .replace('{messageId}', formatId('message', messageId))
    .replace(/\{callId\}|\{toolCallId\}|\{call\}/, formatCallId(call?.messageId ?? '', call?.index ?? 0));
}

async function send(url: string, method: string, target: string, body: string) {
  const hangUp = new AbortController();
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(url + target, { method, headers, body, signal: hangUp.signal });
  const isStream = /event-stream/.test(response.headers.get('content-type') ?? '');
  const text = isStream ? '' : await response.text();
  hangUp.abort();
  return { status: response.status, text };
}

/** The faults of an answer to a large body. */
function judge(
  { route }: LargeBody,
  { status, text }: Awaited<ReturnType<typeof send>>,
  { issues }: Watched,
): string[] {
  return [
    ...(route.statuses.includes(status) && status < 500 ? [] : [`answers ${status}: ${text.slice(0, 300)}`]),
    ...(status >= 400 && text.length > 20_000 ? [`says ${text.length} characters of what is wrong`] : []),
    ...(issues > MAX_JSON_VALUES ? [`finds ${issues} mistakes`] : []),
  ];
}

test(
  'bodies as large as they may be, in odd shapes, in every field of every route: none is too much for the process',
  async () => {
    await using watched = await startWatchedApi();
    const { service, api, url } = watched;
    const document: unknown = await (await fetch(`${url}/openapi.json`)).json();
    const random = createRandom(`large ${SEED}`);
    const all = largeBodies(readRoutes(document), readSchemas(document), random);
    const bodies = IS_LONG ? all : Array.from({ length: SAMPLE }, () => random.pick(all));
    const wrong: string[] = [];
    const held: { name: string; heldMs: number; issues: number }[] = [];
    for (const body of bodies) {
      const name = `${body.route.method} ${body.route.path}, ${body.shape} as ${body.where}`;
      const text = body.text();
      let least = Number.POSITIVE_INFINITY;
      for (let tries = 0; tries < TRIES && least > MAX_HELD_MS; tries++) {
        const target = await pathOf(service, body.route);
        await readLoop(api);
        const answer = await send(url, body.route.method, target, text);
        const loop = await readLoop(api);
        if (tries === 0) wrong.push(...judge(body, answer, loop).map((what) => `${name}: ${what}`));
        if (loop.heldMs < least)
          held.push({ name: `${name} (${answer.status})`, heldMs: loop.heldMs, issues: loop.issues });
        least = Math.min(least, loop.heldMs);
        if (!IS_LONG) break;
      }
      if (!IS_LONG || least <= MAX_HELD_MS) continue;
      wrong.push(`${name}: holds the loop for ${Math.round(least)} ms`);
      process.stdout.write(`${wrong.at(-1)}\n`);
    }
    const worst = held.toSorted((a, b) => b.heldMs - a.heldMs).slice(0, 8);
    const lines = worst.map((each) => `  ${each.heldMs.toFixed(0)} ms, ${each.issues} mistakes: ${each.name}\n`);
    process.stdout.write(
      `fuzz: ${bodies.length} large bodies, seed ${SEED}; the loop was held the longest by\n${lines.join('')}`,
    );
    expect(wrong).toEqual([]);
  },
  WITHIN_MS,
);
