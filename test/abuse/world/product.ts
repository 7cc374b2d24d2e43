import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startSimulator } from '../../../simulator/server.ts';
import { connectionToRunning } from '../../../src/embedded/running.ts';
import { mountSmallDisk } from '../../support/small-disk.ts';
import type { AgentFile, Row } from '../row.ts';
import { type Credentials, createDatabase } from './database.ts';
import { obey } from './model.ts';
import { startOwnCluster } from './own-cluster.ts';
import { createProcesses, type Processes } from './processes.ts';
import type { Services } from './services.ts';

/** The product under attack, with its stores and its simulated model. */
export type Product = AsyncDisposable & Served & Pick<Processes, 'ownEnds' | 'peakMb'> & Around;

type Around = Readonly<{ simulatorUrl: string; folder: string; workspace: string }>;

/** The addresses of the product and its stores, and the keys of the tenants. */
type Served = Readonly<{
  url: string;
  /** The URL changes when an embedded Postgres is started again. */
  databaseUrl: () => Promise<string>;
  redisUrl: string | null;
  diskFolder: string | null;
  attacker: Credentials;
  accomplice: Credentials;
  neighbour: Credentials;
}>;

type Parts = Around & Readonly<{ row: Row; services: Services; processes: Processes; stack: AsyncDisposableStack }>;

const entry = (path: string): string => fileURLToPath(new URL(`../../../${path}`, import.meta.url));
const API = entry('workers/api.ts');
const WORKER = entry('test/faults/worker.ts');
const NEWCOMER = entry('workers/all.ts');

/** Starts the product for one row. */
export async function startProduct(row: Row, services: Services): Promise<Product> {
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'baton-abused-'));
  stack.defer(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
  const { settings = {}, agents = {} } = (await row.setUp?.(folder)) ?? {};
  await writeAgents(join(folder, 'agents'), agents);
  const simulator = stack.use(await startSimulator({ rawBodies: 'none' }));
  simulator.script('*', obey);
  const around = { simulatorUrl: simulator.url, folder, workspace: join(folder, 'workspace') };
  // Disposed after the processes, which hold files and connections open.
  const below = stack.use(new AsyncDisposableStack());
  const processes = stack.use(createProcesses(settings, row.isNewcomer === true ? 'SIGTERM' : 'SIGKILL'));
  const parts = { ...around, row, services, processes, stack: below };
  const served = row.isNewcomer === true ? await serveNewcomer(parts) : await serveTenants(parts);
  const owned = stack.move();
  return { ...around, ...processes, ...served, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** One process with everything, as `npm start`: agents, database and workspace at their default places. */
async function serveNewcomer({ processes, simulatorUrl, folder }: Parts): Promise<Served> {
  const environment = { BATON_PORT: '0', BATON_SIMULATOR_URL: simulatorUrl };
  const { started } = await processes.start({ role: 'all', file: NEWCOMER, environment, cwd: folder });
  return {
    url: String(started['url']),
    databaseUrl: () => connectionToRunning(join(folder, '.baton')),
    redisUrl: null,
    diskFolder: null,
    attacker: {},
    accomplice: {},
    neighbour: {},
  };
}

/** The pid of the embedded Postgres in this folder. */
export async function postmasterPid(folder: string): Promise<number> {
  const lines = await readFile(join(folder, '.baton/cluster/postmaster.pid'), 'utf8');
  return Number(lines.split('\n')[0]);
}

/** An API process and workers as in production, with a key for each tenant. */
async function serveTenants({ row, services, processes, stack, ...around }: Parts): Promise<Served> {
  const { redisUrl } = services;
  const { folder, workspace, simulatorUrl } = around;
  await mkdir(workspace);
  const diskFolder = row.hasSmallDisk === true ? stack.use(await mountSmallDisk()).path : null;
  const adminUrl =
    diskFolder === null ? services.postgresUrl : stack.use(await startOwnCluster(join(diskFolder, 'postgres'))).url;
  const { url: databaseUrl, attacker, accomplice, neighbour } = stack.use(await createDatabase(adminUrl));
  const environment = {
    DATABASE_URL: databaseUrl,
    ...(redisUrl === null ? {} : { REDIS_URL: redisUrl }),
    BATON_PORT: '0',
    BATON_SIMULATOR_URL: simulatorUrl,
    BATON_QUEUE_PREFIX: `abuse-${randomBytes(4).toString('hex')}`,
    BATON_AGENTS_DIR: join(folder, 'agents'),
    BATON_WORKSPACE_DIR: workspace,
  };
  const [api] = await Promise.all([
    processes.start({ role: 'api', file: API, environment }),
    ...Array.from({ length: row.workers ?? 1 }, (_, no) =>
      processes.start({ role: `worker ${no + 1}`, file: WORKER, environment }),
    ),
  ]);
  const url = String(api.started['url']);
  return { url, databaseUrl: async () => databaseUrl, redisUrl, diskFolder, attacker, accomplice, neighbour };
}

/** Writes the agents of all rows and of this one. JSON is YAML. */
async function writeAgents(agentsDir: string, more: Readonly<Record<string, AgentFile>>): Promise<void> {
  await mkdir(agentsDir);
  const agents: Record<string, AgentFile> = {
    neighbour: { model: 'simulated/neighbour' },
    attacker: { model: 'simulated/attacker', limits: { maxSteps: 1_000 } },
    ...more,
  };
  for (const [name, agent] of Object.entries(agents)) {
    await writeFile(join(agentsDir, `${name}.yaml`), JSON.stringify({ name, ...agent }));
  }
}
