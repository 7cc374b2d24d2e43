import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { type BatonClient, createClient } from '../../src/client/client.ts';
import { type DocumentedRoute, readRoutes } from '../http/documented-routes.ts';
import { startTestApi } from '../http/test-api.ts';

/** Operations for clients of OpenAI's API. */
const FACADES = [
  '/v1/chat/completions',
  '/v1/models',
  '/v1/models/{model}',
  '/v1/responses',
  '/v1/responses/compact',
  '/v1/responses/input_tokens',
  '/v1/responses/{id}',
  '/v1/responses/{id}/cancel',
  '/v1/responses/{id}/input_items',
];

const SESSION = `ses_${'1'.repeat(32)}`;
const RUN = `run_${'2'.repeat(32)}`;
const MESSAGE = `msg_${'3'.repeat(32)}`;
const BLOB = `blob_${'5'.repeat(32)}`;
const WEBHOOK = `whk_${'6'.repeat(32)}`;
const KEY = `key_${'9'.repeat(32)}`;
const SCHEDULE = `sch_${'8'.repeat(32)}`;
const SCHEDULE_FIELDS = {
  agent: 'a',
  cron: '0 9 * * *',
  timezone: 'Europe/Berlin',
  content: 'c',
  title: 't',
  session: 'same',
  overlap: 'queue',
  catchup: 'last',
  jitterMs: 5,
} as const;
const DELIVERY = `dlv_${'7'.repeat(32)}`;
const CALL = `call_${'4'.repeat(32)}_1`;

/** Every method with all of its arguments. The compiler or the test reports a method that is missing here. */
const CALLS: {
  [Name in keyof BatonClient]: BatonClient[Name] extends (...args: never[]) => unknown
    ? (client: BatonClient) => unknown
    : { [Method in keyof BatonClient[Name]]: (client: BatonClient) => unknown };
} = {
  send: (client) =>
    client.send(SESSION, 'x', {
      id: MESSAGE,
      delivery: 'steer',
      limits: { maxSteps: 1 },
      webhook: { url: 'u', secret: 's' },
    }),
  ask: (client) => client.ask(SESSION, 'x', { id: MESSAGE, delivery: 'steer', limits: { maxSteps: 1 } }),
  events: (client) => client.events(SESSION, { after: 1 }).next(),
  eventPage: (client) => client.eventPage(SESSION, { after: 1, limit: 2 }),
  messages: (client) => client.messages(SESSION, { before: 1, order: 'desc', runId: RUN, limit: 2 }),
  sessions: {
    create: (client) =>
      client.sessions.create({
        agent: 'a',
        key: 'k',
        title: 't',
        metadata: { k: 'v' },
        expiresAt: null,
        overrides: { model: 'b/c' },
      }),
    list: (client) =>
      client.sessions.list({
        cursor: 'c',
        limit: 2,
        q: 'q',
        ids: [SESSION],
        key: 'k',
        agent: 'a',
        status: 'idle',
        parent: SESSION,
        since: '2026-01-31T12:00:00Z',
        failed: true,
        waiting: true,
        minCost: 0.5,
        metadata: { k: 'v' },
      }),
    get: (client) => client.sessions.get(SESSION),
    update: (client) => client.sessions.update(SESSION, { title: null, metadata: { k: 'v' } }),
    delete: (client) => client.sessions.delete(SESSION),
    cancel: (client) => client.sessions.cancel(SESSION, { queue: 'clear' }),
    resume: (client) => client.sessions.resume(SESSION, { limits: {} }),
    switchAgent: (client) =>
      client.sessions.switchAgent(SESSION, { agent: 'a', model: 'b/c', overrides: { instructions: 'i' } }),
    repin: (client) => client.sessions.repin(SESSION),
    revert: (client) => client.sessions.revert(SESSION, MESSAGE),
    unrevert: (client) => client.sessions.unrevert(SESSION),
    createToken: (client) => client.sessions.createToken(SESSION, { access: 'write', expiresInSeconds: 60 }),
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
    list: (client) => client.runs.list({ cursor: 'c', limit: 2, status: 'failed', sessionId: SESSION, ids: [RUN] }),
    get: (client) => client.runs.get(RUN),
    request: (client) => client.runs.request(RUN, 1, { attempt: 1, after: 3, limit: 2 }),
    steps: (client) => client.runs.steps(RUN, { after: 3, limit: 2 }),
    wait: (client) => client.runs.wait(RUN, { timeoutMs: 3 }),
    result: (client) => client.runs.result(RUN),
    follow: (client) => client.runs.follow(RUN, { after: 1 }).next(),
    cancel: (client) => client.runs.cancel(RUN, { waitMs: 3 }),
    answer: (client) => client.runs.answer(RUN, CALL, { decision: 'deny', reason: 'no' }),
  },
  blobs: {
    upload: (client) => client.blobs.upload(new Blob(['x'])),
    download: (client) => client.blobs.download(BLOB),
  },
  inbox: (client) => client.inbox({ cursor: 'c', limit: 2 }),
  errors: (client) => client.errors({ since: 's', agent: 'a', limit: 2 }),
  usage: (client) => client.usage({ by: ['day'], since: 's', until: 'u' }),
  activity: (client) => client.activity().next(),
  workers: (client) => client.workers(),
  operator: {
    runs: (client) => client.operator.runs({ cursor: 'c', limit: 2, status: 'failed', tenant: 't' }),
    errors: (client) => client.operator.errors({ since: 's', agent: 'a', limit: 2 }),
    usage: (client) => client.operator.usage({ by: ['tenant'], since: 's', until: 'u' }),
  },
  schedules: {
    create: (client) => client.schedules.create(SCHEDULE_FIELDS),
    put: (client) => client.schedules.put('daily', SCHEDULE_FIELDS),
    list: (client) => client.schedules.list(),
    get: (client) => client.schedules.get(SCHEDULE),
    update: (client) => client.schedules.update(SCHEDULE, SCHEDULE_FIELDS),
    delete: (client) => client.schedules.delete(SCHEDULE),
    pause: (client) => client.schedules.pause(SCHEDULE, { reason: 'r' }),
    resume: (client) => client.schedules.resume(SCHEDULE),
    run: (client) => client.schedules.run(SCHEDULE),
    next: (client) => client.schedules.next(SCHEDULE, { n: 3 }),
    fires: (client) => client.schedules.fires(SCHEDULE, { before: 'b', limit: 2 }),
  },
  webhooks: {
    create: (client) => client.webhooks.create({ url: 'u', secret: 's', events: ['run:failed'], agent: 'a' }),
    put: (client) => client.webhooks.put('shop', { url: 'u', secret: 's', events: ['run:failed'], agent: 'a' }),
    list: (client) => client.webhooks.list(),
    get: (client) => client.webhooks.get(WEBHOOK),
    update: (client) =>
      client.webhooks.update(WEBHOOK, { url: 'u', secret: 's', events: ['run:failed'], agent: 'a', enabled: true }),
    delete: (client) => client.webhooks.delete(WEBHOOK),
    test: (client) => client.webhooks.test(WEBHOOK),
    deliveries: (client) =>
      client.webhooks.deliveries({ cursor: 'c', limit: 2, webhookId: WEBHOOK, runId: RUN, state: 'failed' }),
    delivery: (client) => client.webhooks.delivery(DELIVERY),
    redeliver: (client) => client.webhooks.redeliver(DELIVERY),
  },
  agents: (client) => client.agents(),
  audit: (client) => client.audit({ before: 3, limit: 2 }),
  keys: {
    list: (client) => client.keys.list({ cursor: 'c', limit: 2 }),
    create: (client) => client.keys.create({ name: 'ci', scopes: ['read'], expiresInSeconds: 60 }),
    revoke: (client) => client.keys.revoke(KEY),
  },
  readiness: (client) => client.readiness(),
  whoami: (client) => client.whoami(),
};

type Asked = Readonly<{
  method: string;
  path: string;
  query: readonly string[];
  hasBody: boolean;
  /** The JSON body; {} for any other body. */
  body: Readonly<Record<string, unknown>>;
  isKeyed: boolean;
  /** Arguments of the method that sends this request. */
  given: readonly unknown[];
}>;

/** Wraps every method so that it reports its arguments. */
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

/** Records the requests of all methods. Each gets an answer that ends it. */
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

/** Operations for other services, which sign their requests. The client has no method for them. */
const OF_OTHERS = ['/v1/hooks/{name}'];

const matches = ({ method, path: template }: DocumentedRoute, asked: Asked): boolean =>
  asked.method === method && new RegExp(`^${template.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(asked.path);

test('the client has a method for every operation of the document, and asks for nothing else', async () => {
  await using api = await startTestApi();
  const routes = readRoutes((await api.call('GET', '/openapi.json')).body).filter(
    ({ path: route }) =>
      (route.startsWith('/v1/') && ![...FACADES, ...OF_OTHERS].includes(route)) || route === '/readyz',
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
    // In a group the row of the first method has the group's name; the rows below it do not.
    for (const method of typeof entry === 'function' ? [] : Object.keys(entry)) {
      expect(text, `${name}.${method}`).toMatch(new RegExp(`\`(${name})?\\.${method}[\`(]`));
    }
  }
});
