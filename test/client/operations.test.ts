import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { type BatonClient, createClient } from '../../src/client/client.ts';
import { type DocumentedRoute, readRoutes } from '../http/documented-routes.ts';
import { startTestApi } from '../http/test-api.ts';

/** What others speak: clients of OpenAI's API. */
const FACADES = ['/v1/chat/completions', '/v1/models', '/v1/models/{model}'];

const SESSION = `ses_${'1'.repeat(32)}`;
const RUN = `run_${'2'.repeat(32)}`;
const MESSAGE = `msg_${'3'.repeat(32)}`;
const BLOB = `blob_${'5'.repeat(32)}`;
const CALL = `call_${'4'.repeat(32)}_1`;

/** Every method, called with everything that it takes. A method that is missing here fails the test. */
const CALLS: {
  [Name in keyof BatonClient]: BatonClient[Name] extends (...args: never[]) => unknown
    ? (client: BatonClient) => unknown
    : { [Method in keyof BatonClient[Name]]: (client: BatonClient) => unknown };
} = {
  send: (client) => client.send(SESSION, 'x', { id: MESSAGE, delivery: 'steer', limits: { maxSteps: 1 } }),
  events: (client) => client.events(SESSION, { after: 1 }).next(),
  eventPage: (client) => client.eventPage(SESSION, { after: 1, limit: 2 }),
  messages: (client) => client.messages(SESSION, { after: 1, limit: 2 }),
  sessions: {
    create: (client) =>
      client.sessions.create({
        agent: 'a',
        title: 't',
        metadata: { k: 'v' },
        expiresAt: null,
        overrides: { model: 'b/c' },
      }),
    list: (client) => client.sessions.list({ cursor: 'c', limit: 2, status: 'idle', metadata: { k: 'v' } }),
    get: (client) => client.sessions.get(SESSION),
    update: (client) => client.sessions.update(SESSION, { title: null, metadata: { k: 'v' } }),
    delete: (client) => client.sessions.delete(SESSION),
    cancel: (client) => client.sessions.cancel(SESSION, { queue: 'clear' }),
    resume: (client) => client.sessions.resume(SESSION, { limits: {} }),
    switchAgent: (client) =>
      client.sessions.switchAgent(SESSION, { agent: 'a', model: 'b/c', overrides: { instructions: 'i' } }),
    repin: (client) => client.sessions.repin(SESSION),
    fork: (client) => client.sessions.fork(SESSION, { atMessage: MESSAGE, title: 't', metadata: { k: 'v' } }),
    context: (client) => client.sessions.context(SESSION),
    view: (client) => client.sessions.view(SESSION, { after: 3, limit: 2 }),
    compact: (client) => client.sessions.compact(SESSION),
    prune: (client) => client.sessions.prune(SESSION),
  },
  queue: {
    list: (client) => client.queue.list(SESSION, { cursor: 'c', limit: 2 }),
    get: (client) => client.queue.get(SESSION, MESSAGE),
    change: (client) => client.queue.change(SESSION, MESSAGE, { delivery: 'followup' }),
    remove: (client) => client.queue.remove(SESSION, MESSAGE),
    clear: (client) => client.queue.clear(SESSION),
  },
  runs: {
    list: (client) => client.runs.list({ cursor: 'c', limit: 2, status: 'failed', sessionId: SESSION }),
    get: (client) => client.runs.get(RUN),
    wait: (client) => client.runs.wait(RUN, { timeoutMs: 3 }),
    follow: (client) => client.runs.follow(RUN, { after: 1 }).next(),
    cancel: (client) => client.runs.cancel(RUN, { waitMs: 3 }),
    answer: (client) => client.runs.answer(RUN, CALL, { decision: 'deny', reason: 'no' }),
  },
  blobs: {
    upload: (client) => client.blobs.upload(new Blob(['x'])),
    download: (client) => client.blobs.download(BLOB),
  },
  agents: (client) => client.agents(),
  audit: (client) => client.audit({ before: 3, limit: 2 }),
  readiness: (client) => client.readiness(),
};

type Asked = Readonly<{
  method: string;
  path: string;
  query: readonly string[];
  hasBody: boolean;
  /** Where it is JSON; else without fields. */
  body: Readonly<Record<string, unknown>>;
  isKeyed: boolean;
  /** The arguments of the method that asks for it. */
  given: readonly unknown[];
}>;

/** Has every method tell what it is called with. */
function spyOnAll(methods: object, tell: (given: readonly unknown[]) => void): void {
  for (const [name, entry] of Object.entries(methods)) {
    if (typeof entry === 'object') spyOnAll(entry, tell);
    else {
      const told = (...given: unknown[]): unknown => {
        tell(given);
        return entry(...given);
      };
      Object.assign(methods, { [name]: told });
    }
  }
}

/** What the methods ask for; each gets an answer that ends it. */
async function askAll(): Promise<Asked[]> {
  const asked: Asked[] = [];
  let given: readonly unknown[] = [];
  const answer = async (url: string, init: RequestInit): Promise<Response> => {
    const { pathname, searchParams } = new URL(url);
    const isKeyed = new Headers(init.headers).has('idempotency-key');
    const hasBody = init.body !== undefined;
    const body = typeof init.body === 'string' ? JSON.parse(init.body) : {};
    const query = [...searchParams.keys()];
    asked.push({ method: init.method ?? 'GET', path: pathname, query, hasBody, body, isKeyed, given });
    if (new Headers(init.headers).get('accept') === 'text/event-stream') return new Response(null, { status: 418 });
    return Response.json({ status: 'completed', sessionId: SESSION });
  };
  const client = createClient({ baseUrl: 'http://service/', fetch: answer, retries: 0 });
  spyOnAll(client, (args) => {
    given = args;
  });
  for (const entry of Object.values(CALLS)) {
    for (const call of typeof entry === 'function' ? [entry] : Object.values(entry)) {
      await Promise.allSettled([call(client)]);
    }
  }
  return asked;
}

const matches = ({ method, path: template }: DocumentedRoute, asked: Asked): boolean =>
  asked.method === method && new RegExp(`^${template.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(asked.path);

test('the client has a method for every operation of the document, and asks for nothing else', async () => {
  await using api = await startTestApi();
  const routes = readRoutes((await api.call('GET', '/openapi.json')).body).filter(
    ({ path: route }) => (route.startsWith('/v1/') && !FACADES.includes(route)) || route === '/readyz',
  );
  const asked = await askAll();
  const name = ({ method, path: route }: { method: string; path: string }) => `${method} ${route}`;
  const reached = new Set(asked.map((request) => name(routes.find((route) => matches(route, request)) ?? request)));
  expect([...reached].sort()).toEqual(routes.map(name).sort());
});

test('it sends only parameters, bodies and keys that the document knows', async () => {
  await using api = await startTestApi();
  const routes = readRoutes((await api.call('GET', '/openapi.json')).body);
  for (const request of await askAll()) {
    const route = routes.find((candidate) => matches(candidate, request));
    const named = (place: string) => route?.parameters.filter((each) => each.in === place).map(({ name }) => name);
    const query = request.query.filter((name) => !name.startsWith('metadata.'));
    expect(named('query'), `${request.method} ${request.path}`).toEqual(expect.arrayContaining(query));
    expect(request.isKeyed, request.path).toBe(named('header')?.includes('idempotency-key'));
    if (request.hasBody) expect(route?.hasBody, request.path).toBe(true);
  }
});

test('it drops nothing that it is given', async () => {
  for (const { method, path: asked, query, body, given } of (await askAll()).filter(({ hasBody }) => hasBody)) {
    for (const fields of given) {
      if (typeof fields !== 'object' || fields === null || fields instanceof Blob) continue;
      const inBody = Object.entries(fields).filter(([name]) => !query.includes(name.replace(/Ms$/, '')));
      expect(body, `${method} ${asked}`).toMatchObject(Object.fromEntries(inBody));
    }
  }
});

test('it imports nothing but its own files', async () => {
  const folder = path.join(import.meta.dirname, '../../src/client');
  const files = ['client.ts'];
  for (const file of files) {
    const text = await readFile(path.join(folder, file), 'utf8');
    for (const [, target = ''] of text.matchAll(/(?:from|import\()\s*'([^']+)'/g)) {
      expect(target, file).toMatch(/^\.\/[\w-]+\.ts$/);
      if (!files.includes(target.slice(2))) files.push(target.slice(2));
    }
  }
  expect(files.length).toBeGreaterThan(5);
});

test('the documentation names every method', async () => {
  const text = await readFile(path.join(import.meta.dirname, '../../docs/client.md'), 'utf8');
  const client = createClient({ baseUrl: 'http://service' });
  for (const [name, entry] of Object.entries(client)) {
    if (typeof entry === 'function') expect(text).toContain(`\`${name}(`);
    // The first method of a group stands with its name, those that follow it in the row without.
    for (const method of typeof entry === 'function' ? [] : Object.keys(entry)) {
      expect(text, `${name}.${method}`).toMatch(new RegExp(`\`(${name})?\\.${method}[\`(]`));
    }
  }
});
