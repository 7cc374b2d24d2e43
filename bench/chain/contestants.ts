import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { agentVersion } from '../../src/agents/agent.ts';
import { newId } from '../../src/platform/new-id.ts';
import { createJobQueues } from '../../src/queues/bullmq-queues.ts';
import type { JobQueues } from '../../src/queues/job-queue.ts';
import type { Db } from '../../src/store/db/database.ts';
import { insertSession } from '../../src/store/session/sessions.ts';
import { acceptMessage } from '../../test/support/unlimited.ts';
import { createBenchDatabase } from '../database.ts';
import { type BenchChild, startBenchChild, untilEnded } from '../process/child.ts';
import type { Backend, Services } from '../services.ts';
import { CHAIN_AGENT } from './agent.ts';
import { type FloorCall, openFloorQueue } from './queue.ts';
import { type TaskInput, taskText } from './task.ts';

/** Duration of one round, and the work of its worker processes. */
export type Round = Readonly<{
  wallMs: number;
  cpuMs: number;
  queries: number;
  /** Stretches of the paced answers that have ended since the last reading. */
  stretches: readonly number[];
}>;

export type Contestant = AsyncDisposable &
  Readonly<{
    /** Takes `sessions` sessions through the task, all at once. */
    run: (sessions: number, task: TaskInput) => Promise<Round>;
  }>;

/** The running product, with its database and queue. */
export type Durable = AsyncDisposable &
  Readonly<{
    /** Takes `sessions` new sessions through the task: all at once, or with starts spread over `startMs`. */
    run: (sessions: number, task: TaskInput, startMs?: number) => Promise<Round>;
    /** The same with existing sessions. */
    runIn: (sessionIds: readonly string[], task: TaskInput, startMs?: number) => Promise<Round>;
    createSession: () => Promise<string>;
    db: Db;
    children: readonly BenchChild[];
    /** Environment for further processes of the product on the same database and queue. */
    variables: Readonly<Record<string, string>>;
  }>;

export type ChainOptions = Readonly<{
  services: Services;
  backend: Backend;
  /** Steps that each worker process does at the same time. */
  concurrency: number;
  /** Worker processes; default 1. */
  workers?: number;
  /** Base URL of a provider over HTTP. Without it the model runs in the worker's process. */
  providerUrl?: string;
}>;

/** Starts the floor: BullMQ and the AI SDK alone. Each step sends the earlier messages, from memory. */
export async function startFloor(options: ChainOptions, call: FloorCall): Promise<Contestant> {
  await using stack = new AsyncDisposableStack();
  const environment = await openEnvironment(options, stack);
  const child = stack.use(await startBenchChild(new URL('floor-process.ts', import.meta.url), environment.variables));
  const queue = openFloorQueue(environment.variables);
  stack.defer(() => queue.close());
  const owned = stack.move();
  return {
    async run(sessions, { steps }) {
      const ids = Array.from({ length: sessions }, newId);
      return timed([child], ids, () =>
        Promise.all(
          ids.map((id) =>
            queue.add('step', { id, step: 1, steps, call }, { jobId: `${id}-1`, removeOnComplete: true }),
          ),
        ),
      );
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/**
 * Starts the product's worker. Sessions are created before the clock starts; their messages are accepted while it runs.
 */
export async function startDurable(options: ChainOptions): Promise<Durable> {
  await using stack = new AsyncDisposableStack();
  const environment = await openEnvironment(options, stack);
  const children: BenchChild[] = [];
  for (let no = 0; no < (options.workers ?? 1); no++) {
    const file = new URL('durable-process.ts', import.meta.url);
    children.push(stack.use(await startBenchChild(file, environment.variables)));
  }
  const jobs = stack.use(openQueues(options, environment));
  const { db, variables } = environment;
  const send = async (sessionId: string, runId: string, task: TaskInput): Promise<void> => {
    const content = [{ type: 'text' as const, text: taskText(task) }];
    const { job } = await acceptMessage(db, { tenantId: TENANT, sessionId, messageId: newId(), runId, content });
    if (job !== null) await jobs.add([job]);
  };
  const runIn: Durable['runIn'] = (sessionIds, task, startMs = 0) => {
    const runIds = sessionIds.map(newId);
    const beginMs = performance.now();
    return timed(children, runIds, () =>
      inLanes(sessionIds, async (sessionId, at) => {
        const dueMs = beginMs + (startMs * at) / sessionIds.length - performance.now();
        if (dueMs > 0) await pause(dueMs);
        await send(sessionId, runIds[at] ?? newId(), task);
      }),
    );
  };
  const owned = stack.move();
  return {
    db,
    children,
    variables,
    runIn,
    createSession: () => createSession(db),
    async run(sessions, task, startMs) {
      const sessionIds: string[] = [];
      await inLanes(Array.from({ length: sessions }), async () => {
        sessionIds.push(await createSession(db));
      });
      return runIn(sessionIds, task, startMs);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

const TENANT = 'default';

const CONNECTIONS = 10;

/** Runs at most one piece of work per connection, because the pool refuses work that waits too long for one. */
async function inLanes<T>(items: readonly T[], work: (item: T, at: number) => Promise<void>): Promise<void> {
  const left = items.entries();
  const lane = async (): Promise<void> => {
    for (const [at, item] of left) await work(item, at);
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, lane));
}

async function timed(
  children: readonly BenchChild[],
  ids: readonly string[],
  start: () => Promise<unknown>,
): Promise<Round> {
  const before = await usageOf(children);
  const startedAt = performance.now();
  const ended = untilEnded(children, ids);
  await Promise.all([start(), ended]);
  const wallMs = performance.now() - startedAt;
  const after = await usageOf(children);
  const { stretches } = after;
  return { wallMs, cpuMs: after.cpuMs - before.cpuMs, queries: after.queries - before.queries, stretches };
}

async function usageOf(children: readonly BenchChild[]): Promise<Omit<Round, 'wallMs'>> {
  const usages = await Promise.all(children.map((child) => child.usage()));
  return {
    cpuMs: usages.reduce((sum, { cpuMs }) => sum + cpuMs, 0),
    queries: usages.reduce((sum, { queries }) => sum + queries, 0),
    stretches: usages.flatMap(({ stretches }) => stretches),
  };
}

type Environment = Readonly<{ db: Db; url: string; prefix: string; variables: Readonly<Record<string, string>> }>;

/** Creates a database and a queue prefix, and the environment that gives them to a worker process. */
async function openEnvironment(
  { services, backend, concurrency, providerUrl }: ChainOptions,
  stack: AsyncDisposableStack,
): Promise<Environment> {
  const { db, url } = stack.use(await createBenchDatabase(services, CONNECTIONS));
  const prefix = `bench-${randomBytes(6).toString('hex')}`;
  const redis: Record<string, string> =
    backend === 'redis' && services.redisUrl !== null ? { REDIS_URL: services.redisUrl } : {};
  return {
    db,
    url,
    prefix,
    variables: {
      DATABASE_URL: url,
      ...redis,
      BATON_QUEUE_PREFIX: prefix,
      BATON_STEP_CONCURRENCY: String(concurrency),
      BENCH_CONCURRENCY: String(concurrency),
      ...(providerUrl !== undefined && { OPENAI_BASE_URL: providerUrl, OPENAI_API_KEY: 'bench' }),
    },
  };
}

function openQueues({ services, backend }: ChainOptions, { url, prefix }: Environment): JobQueues {
  const log = () => undefined;
  return backend === 'redis' && services.redisUrl !== null
    ? createJobQueues({ backend: 'redis', url: services.redisUrl, prefix, log })
    : createJobQueues({ backend: 'postgres', connectionString: url, log });
}

async function createSession(db: Db): Promise<string> {
  const id = newId();
  await insertSession(db, {
    id,
    tenantId: TENANT,
    agentName: CHAIN_AGENT.name,
    agentVersion: agentVersion(CHAIN_AGENT),
    agentSnapshot: CHAIN_AGENT,
    title: null,
    metadata: {},
  });
  return id;
}
