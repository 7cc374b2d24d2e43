import { randomBytes } from 'node:crypto';
import { agentVersion } from '../../src/agents/agent.ts';
import { createJobQueues } from '../../src/queues/bullmq-queues.ts';
import type { JobQueues } from '../../src/queues/job-queue.ts';
import { newId } from '../../src/runtime/new-id.ts';
import type { Db } from '../../src/store/database.ts';
import { acceptMessage } from '../../src/store/inbox.ts';
import { insertSession } from '../../src/store/sessions.ts';
import { createBenchDatabase } from '../database.ts';
import { type BenchChild, startBenchChild } from '../process/child.ts';
import type { Backend, Services } from '../services.ts';
import { CHAIN_AGENT } from './agent.ts';
import { askForSteps } from './model.ts';
import { openFloorQueue } from './queue.ts';

/** Milliseconds that a round took, and the CPU time of the worker process in it. */
export type Round = Readonly<{ wallMs: number; cpuMs: number }>;

export type Contestant = AsyncDisposable &
  Readonly<{
    /** Takes so many sessions at once through so many steps each. */
    run: (sessions: number, steps: number) => Promise<Round>;
  }>;

export type ChainOptions = Readonly<{ services: Services; backend: Backend; concurrency: number }>;

/** BullMQ and the AI SDK alone. With `history` each step sends what was said before, from memory. */
export async function startFloor(options: ChainOptions, history: boolean): Promise<Contestant> {
  await using stack = new AsyncDisposableStack();
  const environment = await openEnvironment(options, stack);
  const child = stack.use(await startBenchChild(new URL('floor-process.ts', import.meta.url), environment.variables));
  const queue = openFloorQueue(environment.variables);
  stack.defer(() => queue.close());
  const owned = stack.move();
  return {
    async run(sessions, steps) {
      const ids = Array.from({ length: sessions }, newId);
      return timed(child, ids, () =>
        Promise.all(
          ids.map((id) =>
            queue.add('step', { id, step: 1, steps, history }, { jobId: `${id}-1`, removeOnComplete: true }),
          ),
        ),
      );
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** The product's worker. Its sessions are there before the clock starts; their messages are accepted while it runs. */
export async function startDurable(options: ChainOptions): Promise<Contestant> {
  await using stack = new AsyncDisposableStack();
  const environment = await openEnvironment(options, stack);
  const child = stack.use(await startBenchChild(new URL('durable-process.ts', import.meta.url), environment.variables));
  const jobs = stack.use(openQueues(options, environment));
  const { db } = environment;
  const owned = stack.move();
  return {
    async run(sessions, steps) {
      const sessionIds = await Promise.all(Array.from({ length: sessions }, () => createSession(db)));
      const runs = sessionIds.map((sessionId) => ({ sessionId, runId: newId() }));
      return timed(
        child,
        runs.map(({ runId }) => runId),
        () =>
          Promise.all(
            runs.map(async ({ sessionId, runId }) => {
              const content = [{ type: 'text' as const, text: askForSteps(steps) }];
              const accepted = { tenantId: TENANT, sessionId, messageId: newId(), runId, content };
              const { job } = await acceptMessage(db, accepted);
              if (job !== null) await jobs.add([job]);
            }),
          ),
      );
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

const TENANT = 'default';

async function timed(child: BenchChild, ids: readonly string[], start: () => Promise<unknown>): Promise<Round> {
  const cpuBefore = await child.cpuMs();
  const startedAt = performance.now();
  const ended = child.untilEnded(ids);
  await Promise.all([start(), ended]);
  const wallMs = performance.now() - startedAt;
  return { wallMs, cpuMs: (await child.cpuMs()) - cpuBefore };
}

type Environment = Readonly<{ db: Db; url: string; prefix: string; variables: Readonly<Record<string, string>> }>;

/** A database and a queue prefix of its own, and the variables that tell a worker process of them. */
async function openEnvironment(
  { services, backend, concurrency }: ChainOptions,
  stack: AsyncDisposableStack,
): Promise<Environment> {
  const { db, url } = stack.use(await createBenchDatabase(services.postgresUrl, 10));
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
