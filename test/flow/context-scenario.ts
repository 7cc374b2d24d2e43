import type { ModelWindow } from '../../simulator/window.ts';
import { agentSchema } from '../../src/agents/agent.ts';
import { createCatalogue } from '../../src/agents/load-agents.ts';
import { startApi } from '../../src/app/api-server.ts';
import { startJobWorker } from '../../src/app/job-worker.ts';
import type { ModelOverride } from '../../src/domain/context/limits/model-entry.ts';
import { parseId } from '../../src/domain/ids.ts';
import type { SessionSnapshot } from '../../src/domain/run/session-snapshot.ts';
import { toSessionSnapshot } from '../../src/events/stream-item.ts';
import { readLiveSnapshot } from '../../src/store/lists/live-snapshot.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { readTool } from '../compaction/compaction-support.ts';
import { describing } from '../model/test-models.ts';
import { anyBackend } from '../support/backends.ts';
import { startTestService, type TestService } from '../support/service.ts';

/** A run as the API answers with it. */
type Run = Readonly<{
  id: string;
  status: string;
  reason: string | null;
  steps: number;
  error: Readonly<{ code: string; message: string }> | null;
}>;

type Message = Readonly<{ seq: number; role: string; parts: readonly Readonly<{ type: string; text?: string }>[] }>;

/** A compaction as the meter lists it. */
type Round = Readonly<{
  round: number;
  state: string;
  strategy: string;
  reason: string;
  attempts: number;
  tokensBefore: number;
  tokensAfter: number | null;
  error: Readonly<{ code: string; message: string }> | null;
}>;

type Accepted = Readonly<{ runId: string; queued: boolean; position: number }>;

/** Counts of requests to the provider: for steps, the refused ones of these, and for summaries. */
type Calls = Readonly<{ model: number; refused: number; summarizer: number }>;

export type Scenario = AsyncDisposable &
  Readonly<{
    service: TestService;
    /** The session's internal id. */
    sessionId: string;
    send: (content: string | readonly object[], fields?: object) => Promise<Accepted>;
    /** Waits for the end of a run. */
    ended: (runId: string) => Promise<Run>;
    /** Sends a message and waits for the end of its run. */
    ask: (content: string | readonly object[]) => Promise<Run>;
    startWorker: () => Promise<AsyncDisposable>;
    /** Puts images into the message that waits: the API takes texts only. */
    attachImages: (text: string, count: number) => Promise<void>;
    /** Asks for a compaction. */
    compact: () => Promise<Pick<Accepted, 'runId' | 'queued'>>;
    /** Tokens of the next request, as the meter shows them. */
    used: () => Promise<number>;
    /** The compactions so far, the first one first. */
    rounds: () => Promise<readonly Round[]>;
    /** The session, as the API shows it. */
    session: <Body = Readonly<Record<string, unknown>>>() => Promise<Body>;
    /** The meter, as the API shows it. */
    context: <Body>() => Promise<Body>;
    /** A page of the view for the next request. */
    view: <Body>(query?: string) => Promise<Body>;
    /** The snapshot that a reader gets first when it joins now. */
    snapshot: () => Promise<SessionSnapshot>;
    /** The transcript. */
    messages: <Body = Message>() => Promise<readonly Body[]>;
    calls: () => Calls;
  }>;

export type ScenarioOptions = Readonly<{
  /** The largest request that the provider takes. A number is in tokens. */
  window: number | ModelWindow;
  /** The agent's `context`, as its file would have it. */
  context?: Readonly<Record<string, unknown>>;
  /** Further fields of the agent's file. */
  agent?: Readonly<Record<string, unknown>>;
  /** Further agents of the catalogue. */
  others?: readonly Readonly<Record<string, unknown>>[];
  tools?: readonly Tool[];
  environment?: Readonly<Record<string, string>>;
  /** Facts about models in addition to the registry. */
  models?: readonly ModelOverride[];
  /** Longest time of one compaction. */
  compactionTimeoutMs?: number;
  /** True: no worker runs before `startWorker`. */
  isPaused?: boolean;
}>;

/** Compacts at 80 %, so that the number of compactions follows from sizes alone. A test's own options replace it. */
function withThreshold(context: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return { ...context, compaction: { options: { thresholdPercent: 80 }, ...Object(context['compaction']) } };
}

/**
 * The whole service, from the HTTP API to the simulated provider, and one session of one agent,
 * created through the API.
 */
export async function startScenario(options: ScenarioOptions): Promise<Scenario> {
  const { window, agent: fields = {}, tools = [readTool], environment = {} } = options;
  await using stack = new AsyncDisposableStack();
  const backend = anyBackend();
  const settings = { BATON_PORT: '0', ...environment };
  const service = stack.use(await startTestService({ backend, tools, environment: settings }));
  service.simulator.setWindow('test', window);
  const context = withThreshold(options.context ?? {});
  const agent = agentSchema.parse({ name: 'tester', model: 'simulated/test', tools: ['test'], context, ...fields });
  const deps = {
    ...service.deps,
    agents: createCatalogue([agent, ...(options.others ?? []).map((other) => agentSchema.parse(other))]),
    describeModel: await describing(options.models),
    ...(options.compactionTimeoutMs !== undefined && { compactionTimeoutMs: options.compactionTimeoutMs }),
  };
  const { url } = stack.use(await startApi(deps));
  const workers = stack.use(new AsyncDisposableStack());
  const startWorker = async () => workers.use(await startJobWorker(deps));
  if (options.isPaused !== true) await startWorker();
  const session = await call<{ id: string }>(url, '/v1/sessions', { agent: 'tester' });
  const send: Scenario['send'] = (content, rest = {}) =>
    call(url, `/v1/sessions/${session.id}/messages`, { content, ...rest });
  const ended: Scenario['ended'] = (runId) => call(url, `/v1/runs/${runId}/wait?timeoutMs=30000`);
  const path = `/v1/sessions/${session.id}`;
  const readMeter = () => call<{ used: number; compactions: Round[] }>(url, `${path}/context`);
  const owned = stack.move();
  return {
    service,
    sessionId: parseId('session', session.id) ?? '',
    send,
    ended,
    ask: async (content) => ended((await send(content)).runId),
    startWorker,
    attachImages: (text, count) => attachImages(service, text, count),
    compact: () => call(url, `${path}/compact`, {}),
    used: async () => (await readMeter()).used,
    rounds: async () => (await readMeter()).compactions.toSorted((a, b) => a.round - b.round),
    session: () => call(url, path),
    context: () => call(url, `${path}/context`),
    view: (query = '') => call(url, `${path}/view${query}`),
    snapshot: async () =>
      toSessionSnapshot(
        await readLiveSnapshot(service.deps.db, 'default', parseId('session', session.id) ?? ''),
        false,
      ),
    messages: async <Body>() => (await call<{ messages: Body[] }>(url, `${path}/messages?limit=200`)).messages,
    calls: () => callsOf(service),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function call<T>(url: string, path: string, body?: object): Promise<T> {
  const headers = { 'content-type': 'application/json' };
  const init = body === undefined ? {} : { method: 'POST', headers, body: JSON.stringify(body) };
  const response = await fetch(url + path, init);
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as T;
}

function callsOf({ simulator }: TestService): Calls {
  const steps = simulator.requests.filter(({ summary }) => !summary);
  return {
    model: steps.length,
    refused: steps.filter(({ refusal }) => refusal !== undefined).length,
    summarizer: simulator.requests.length - steps.length,
  };
}

async function attachImages({ deps }: TestService, text: string, count: number): Promise<void> {
  const images = Array.from({ length: count }, (_, at) => ({
    type: 'file',
    mediaType: 'image/png',
    filename: `shot-${at}.png`,
    url: `data:image/png;base64,${'A'.repeat(20_000)}`,
  }));
  const content = JSON.stringify([{ type: 'text', text }, ...images]);
  await deps.db.updateTable('inbox').set({ content }).execute();
}
