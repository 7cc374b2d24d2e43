import { type AgentSet, agentSchema } from '../../src/agents/agent.ts';
import { createApp } from '../../src/app/app.ts';
import { BatonError } from '../../src/domain/errors.ts';
import { DEFAULT_INBOX_LIMITS } from '../../src/domain/run/inbox-limits.ts';
import type { JobPayload } from '../../src/domain/run/job.ts';
import { createPostgresBus } from '../../src/events/postgres-bus.ts';
import type { HttpDeps } from '../../src/http/http-deps.ts';
import { startHttpServer } from '../../src/http/server.ts';
import { createMetrics } from '../../src/metrics/metrics.ts';
import { createModels } from '../../src/model/providers.ts';
import type { LogEvent } from '../../src/platform/log.ts';
import { newId } from '../../src/platform/new-id.ts';
import type { JobQueues } from '../../src/queues/job-queue.ts';
import type { Db } from '../../src/store/db/database.ts';
import { NO_QUOTA } from '../../src/store/session/quota.ts';
import { describing, modelBook } from '../model/test-models.ts';
import { createTestDatabase } from '../support/postgres.ts';

type Answer = Readonly<{ status: number; headers: Headers; text: string; body: Json }>;
type Json = Record<string, unknown> & Readonly<{ errors?: readonly { path: string; message: string }[] }>;

export type TestApi = AsyncDisposable &
  Readonly<{
    url: string;
    db: Db;
    /** The jobs that the API has added to the queue. */
    added: JobPayload[];
    /** The events that the API has announced on the bus. */
    announced: { sessionId: string; seq: number }[];
    /** The runs whose workers were told to stop. */
    cancelled: string[];
    logged: LogEvent[];
    call: (method: string, path: string, body?: unknown, headers?: Record<string, string>) => Promise<Answer>;
    createSession: (fields?: object) => Promise<string>;
    send: (sessionId: string, content: string, fields?: object) => Promise<Answer>;
  }>;

const AGENTS = [
  agentSchema.parse({
    name: 'coder',
    model: 'simulated/coder',
    description: 'writes code',
    tools: ['workspace'],
    models: ['*'],
  }),
  agentSchema.parse({ name: 'clerk', model: 'simulated/clerk', models: ['*'], limits: { maxSteps: 7 } }),
];

export const testAgents: AgentSet = {
  names: () => AGENTS.map((agent) => agent.name),
  find: (name) => AGENTS.find((candidate) => candidate.name === name) ?? null,
  get(name) {
    const agent = AGENTS.find((candidate) => candidate.name === name);
    if (agent === undefined) throw new BatonError('agent_not_found', `no agent ${name}; there are coder, clerk`);
    return agent;
  },
};
const catalogue: HttpDeps['agents'] = { current: async () => testAgents };

type Noted = Pick<TestApi, 'db' | 'added' | 'announced' | 'cancelled' | 'logged'>;

/** The API's dependencies, with a new database and a live bus. They note what the API sends to queue, bus and log. */
export async function testDeps(
  overrides: Partial<HttpDeps> = {},
): Promise<AsyncDisposable & Noted & { deps: HttpDeps; connectionString: string }> {
  await using stack = new AsyncDisposableStack();
  const { db, connectionString } = stack.use(await createTestDatabase());
  const bus = stack.use(await createPostgresBus({ connectionString }));
  const noted: Noted = { db, added: [], announced: [], cancelled: [], logged: [] };
  const models = createModels({ simulatorUrl: 'http://127.0.0.1:9' });
  const deps: HttpDeps = {
    db,
    jobs: notingQueues(noted.added),
    bus: {
      ...bus,
      announce(sessionId, seq) {
        noted.announced.push({ sessionId, seq });
        bus.announce(sessionId, seq);
      },
      requestCancel(runId) {
        noted.cancelled.push(runId);
        bus.requestCancel(runId);
      },
    },
    agents: catalogue,
    models,
    describeModel: await describing(),
    modelCheck: {
      models: overrides.models ?? models,
      pricesOf: (await modelBook()).pricesOf,
      hasCostQuota: (overrides.quota?.costUsdPerDay ?? 0) > 0,
    },
    toolsOf: async () => [],
    pinTools: async (agent) => agent,
    log: (_level, event) => void noted.logged.push(event),
    metrics: createMetrics(),
    readiness: async () => ({ ready: true, checks: { database: { ok: true } } }),
    newId,
    quota: NO_QUOTA,
    inboxLimits: DEFAULT_INBOX_LIMITS,
    lookAfterChildren: () => undefined,
    consoleFolder: '/nowhere',
    ...overrides,
  };
  const resources = stack.move();
  return { ...noted, deps, connectionString, [Symbol.asyncDispose]: () => resources.disposeAsync() };
}

/** The whole API on a free port. */
export async function startTestApi(overrides: Partial<HttpDeps> = {}): Promise<TestApi> {
  await using stack = new AsyncDisposableStack();
  const { deps, connectionString: _, ...noted } = stack.use(await testDeps(overrides));
  const { url } = stack.use(await startHttpServer(createApp(deps), { host: '127.0.0.1', port: 0 }));
  const resources = stack.move();
  const call: TestApi['call'] = (method, path, body, headers) => callApi(url, method, path, body, headers);
  return {
    ...noted,
    url,
    call,
    async createSession(fields = {}) {
      const { status, body } = await call('POST', '/v1/sessions', { agent: 'coder', ...fields });
      if (status !== 201) throw new Error(`no session: ${JSON.stringify(body)}`);
      return String(body['id']);
    },
    send: (sessionId, content, fields = {}) =>
      call('POST', `/v1/sessions/${sessionId}/messages`, { content, ...fields }),
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

/** A string body is sent as it is. */
export async function callApi(
  url: string,
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const text = body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body);
  // A chat page shows a refusal to people, so without this header the refusal would be a sentence and no JSON.
  const accept = path.startsWith('/api/chat') ? { accept: 'application/json' } : {};
  const response = await fetch(url + path, {
    method,
    headers: { ...accept, ...(text === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
    ...(text === undefined ? {} : { body: text }),
  });
  const received = await response.text();
  const isJson = received !== '' && /json/.test(response.headers.get('content-type') ?? '');
  const json = isJson ? JSON.parse(received) : {};
  return { status: response.status, headers: response.headers, text: received, body: json };
}

/** A queue that only notes the jobs that the API adds. */
function notingQueues(added: JobPayload[]): JobQueues {
  const unused = (): never => {
    throw new Error('the API only adds jobs');
  };
  return {
    backend: 'postgres',
    add: async (jobs) => void added.push(...jobs),
    stateOf: unused,
    hasten: unused,
    takerOf: unused,
    takenBy: unused,
    counts: unused,
    isPaused: unused,
    countFailed: unused,
    removeFailed: unused,
    bullQueues: () => [],
    consume: unused,
    deliveries: { add: unused, consume: unused },
    probe: async () => undefined,
    [Symbol.asyncDispose]: async () => undefined,
  };
}
