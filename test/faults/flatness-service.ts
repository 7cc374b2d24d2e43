import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';
import pg from 'pg';
import { type Simulator, startSimulator } from '../../simulator/server.ts';
import { agentSchema } from '../../src/agents/agent.ts';
import { createCatalogue } from '../../src/agents/load-agents.ts';
import { startApi } from '../../src/app/api-server.ts';
import { type Dependencies, openDependencies } from '../../src/app/dependencies.ts';
import { type JobWorker, startJobWorker } from '../../src/app/job-worker.ts';
import { loadConfig } from '../../src/platform/config.ts';
import type { Tool } from '../../src/tools/tool.ts';
import type { Backend } from '../support/backends.ts';
import { dropDatabase } from '../support/drop-database.ts';
import { runAsAdmin, withDatabase } from '../support/postgres.ts';

export type FlatnessService = AsyncDisposable &
  Readonly<{
    url: string;
    deps: Dependencies;
    worker: JobWorker;
    simulator: Simulator;
    /** Connections of the test, apart from the service: they are not counted. */
    postgres: pg.Client;
    redis: Redis | null;
    /** The names of the service's connections and keys in Redis begin with it. */
    prefix: string;
  }>;

export type FlatnessServices = Readonly<{ backend: Backend; postgresUrl: string; redisUrl: string | null }>;

/** API, worker and simulated provider in this process, on a database and a queue prefix of their own. */
export async function startFlatnessService(
  services: FlatnessServices,
  tools: readonly Tool[],
): Promise<FlatnessService> {
  await using stack = new AsyncDisposableStack();
  const prefix = `baton-flat-${randomBytes(6).toString('hex')}`;
  const name = prefix.replaceAll('-', '_');
  await runAsAdmin(services.postgresUrl, `create database ${name}`);
  stack.defer(() => dropDatabase((statement) => runAsAdmin(services.postgresUrl, statement), name));
  const databaseUrl = withDatabase(services.postgresUrl, name);
  const postgres = new pg.Client({ connectionString: databaseUrl, application_name: PROBE });
  await postgres.connect();
  stack.defer(() => postgres.end());
  const redis = services.backend === 'redis' && services.redisUrl !== null ? new Redis(services.redisUrl) : null;
  if (redis !== null) stack.defer(() => removeKeys(redis, prefix));
  // The simulator's log of bodies would be the largest thing in this process.
  const simulator = stack.use(await startSimulator({ rawBodies: 'none' }));
  const environment = {
    DATABASE_URL: databaseUrl,
    ...(redis === null ? {} : { REDIS_URL: `${services.redisUrl}?connectionName=${prefix}` }),
    BATON_QUEUE_PREFIX: prefix,
    BATON_SIMULATOR_URL: simulator.url,
    BATON_PORT: '0',
  };
  const agent = agentSchema.parse({ name: 'tester', model: 'simulated/test', tools: ['test'] });
  const deps = stack.use(
    await openDependencies(loadConfig(environment), {
      migrate: true,
      log: () => undefined,
      agents: createCatalogue([agent]),
      toolSets: { test: tools },
    }),
  );
  const { url } = stack.use(await startApi(deps));
  const worker = stack.use(await startJobWorker(deps));
  const owned = stack.move();
  return { url, deps, worker, simulator, postgres, redis, prefix, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** The name of the connection that counts the others. */
export const PROBE = 'baton-flatness-probe';

async function removeKeys(redis: Redis, prefix: string): Promise<void> {
  const keys = await redis.keys(`${prefix}*`);
  if (keys.length > 0) await redis.del(...keys);
  redis.disconnect();
}
