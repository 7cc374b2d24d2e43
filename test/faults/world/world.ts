import { randomBytes } from 'node:crypto';
import { EventEmitter } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import type { ProfileName } from '../../../simulator/profiles.ts';
import { type Simulator, startSimulator } from '../../../simulator/server.ts';
import { migrateQueueTables } from '../../../src/queues/migrate.ts';
import { openDatabase } from '../../../src/store/db/database.ts';
import { migrateToLatest } from '../../../src/store/db/migrate.ts';
import type { Random } from '../../support/random.ts';
import type { Loss } from '../check/losses.ts';
import type { Backend, Fault } from '../fault.ts';
import { LONG_LEASES, SHORT_LEASES } from '../leases.ts';
import { WORKER } from '../strikes/product-copy.ts';
import { agentFiles } from './agent.ts';
import { type Child, startChild } from './child.ts';
import { EDGE_SETTINGS, type PlayedEdges, startEdges } from './edges.ts';
import { type Fleet, startFleet } from './fleet.ts';
import { createModelScript, type ModelManners } from './model.ts';
import type { OwnPostgres, OwnRedis } from './services.ts';
import { createStrikes, type Strikes } from './strikes.ts';
import { openTap, type Tap } from './tap.ts';
import { createTimeline, type Timeline } from './timeline.ts';

/** The product with everything around it: its own database, provider, API process and workers. */
export type World = Readonly<{
  backend: Backend;
  folder: string;
  environment: Readonly<Record<string, string>>;
  postgres: OwnPostgres;
  redis: OwnRedis | null;
  /** In front of Postgres, for every process without a tap of its own. It is led to Postgres's port after a restart. */
  postgresTap: Tap;
  database: pg.Pool;
  simulator: Simulator;
  /**
   * Emits `request <session id>` when a request arrives, with a function that makes its answer long. Emits
   * `last-word <session id>` when the last word of an answer is sent: its step ends within milliseconds. `request` and
   * `last-word` are emitted for all sessions, with the session's id as the first argument.
   */
  model: EventEmitter;
  /** Emits `asked` when a run waits for answers, and `answered`, with the run's id, when it has them all. */
  people: EventEmitter;
  api: ApiProcess;
  fleet: Fleet;
  timeline: Timeline;
  strikes: Strikes;
  ledgerFile: string;
  /** Messages of steps that began while the queue of steps was paused, and the workers knew it. */
  begunWhilePaused: string[];
  /** Cancels of runs that wait for children, with the wall-clock time at which they were sent. */
  treeCancels: { runId: string; atMs: number }[];
  /** Sessions of the row's traffic. */
  sessions: number;
  /** Times whose commits Postgres has lost. */
  losses: Loss[];
  /** Runs that still stood where they were, long after Postgres or Redis had gone back in time. */
  standing: string[];
  /** Null: the row has no webhooks and no schedules. */
  edges: PlayedEdges | null;
}>;

/** The API under a supervisor: whenever its process ends, a new one is started, at another address. */
type ApiProcess = AsyncDisposable &
  Readonly<{ url: () => string; child: () => Child; ownEnds: () => readonly string[] }>;

export type WorldOptions = Readonly<{
  backend: Backend;
  fault: Fault;
  postgres: OwnPostgres;
  redis: OwnRedis | null;
  random: Random;
  manners: ModelManners;
  sessions: number;
  logFile: string | undefined;
  /** The ways of the model's endpoint. Default: those of the protocol. */
  profile?: ProfileName | undefined;
}>;

const API_FILE = fileURLToPath(new URL('../../../workers/api.ts', import.meta.url));

const SETTINGS = {
  BATON_DATABASE_CONNECTIONS: '6',
  BATON_FIRST_CHUNK_TIMEOUT_MS: '1500',
  BATON_IDLE_CHUNK_TIMEOUT_MS: '1000',
  BATON_LOG_LEVEL: 'debug',
};

/** Pause before each piece of a summary: long enough for a strike in the middle of the summary. */
const SUMMARY_CHUNK_DELAY_MS = 10;

/** Starts everything. Disposing the stack ends it in every state. */
export async function startWorld(options: WorldOptions, stack: AsyncDisposableStack): Promise<World> {
  const { backend, fault, postgres, random } = options;
  const redis = backend === 'redis' ? options.redis : null;
  const folder = await mkdtemp(join(tmpdir(), 'baton-fault-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  await mkdir(join(folder, 'agents'));
  for (const [name, text] of Object.entries(agentFiles(fault, options.profile))) {
    await writeFile(join(folder, 'agents', `${name}.yaml`), text);
  }
  const ledgerFile = join(folder, 'ledger.jsonl');
  await writeFile(ledgerFile, '');
  const databaseUrl = await createDatabase(postgres, stack);
  const simulator = stack.use(await startSimulator({ rawBodies: 'none', chunkDelayMs: SUMMARY_CHUNK_DELAY_MS }));
  simulator.setProfile('faulty', options.profile);
  const model = new EventEmitter();
  simulator.script(
    'faulty',
    createModelScript(`model ${fault.name}`, options.manners, {
      onRequest(sessionId, goOn) {
        model.emit(`request ${sessionId}`, goOn);
        model.emit('request', sessionId, goOn);
      },
      onLastWord(sessionId) {
        model.emit(`last-word ${sessionId}`);
        model.emit('last-word', sessionId);
      },
    }),
  );
  const postgresTap = stack.use(await openTap(postgres.port()));
  const database = stack.adopt(openPool(withPort(databaseUrl(), postgresTap.port)), (pool) => pool.end());
  const prefix = `faults-${randomBytes(4).toString('hex')}`;
  const environment = {
    ...SETTINGS,
    ...(fault.isHarmless === true ? LONG_LEASES : SHORT_LEASES),
    BATON_AGENTS_DIR: join(folder, 'agents'),
    BATON_WORKSPACE_DIR: join(folder, 'workspace'),
    BATON_QUEUE_PREFIX: prefix,
    BATON_TEST_LEDGER: ledgerFile,
    ...(fault.edges !== undefined && EDGE_SETTINGS),
    ...(fault.endsReady === true && { BATON_METRICS_PORT: '0' }),
    ...fault.environment,
  };
  const redisUrl = (): string => `redis://127.0.0.1:${redis?.port ?? 0}`;
  const timeline = createTimeline(options.logFile);
  const strikes = createStrikes();
  const api = stack.use(
    await startApiProcess(
      () => ({
        ...environment,
        BATON_PORT: '0',
        BATON_SIMULATOR_URL: simulator.url,
        DATABASE_URL: withPort(databaseUrl(), postgresTap.port),
        ...(redis === null ? {} : { REDIS_URL: redisUrl() }),
      }),
      timeline,
    ),
  );
  const fleet = stack.use(
    await startFleet({
      size: fault.workers ?? 3,
      files: (await fault.versions?.({ folder })) ?? [WORKER],
      environment,
      targets: {
        postgres: {
          port: () => postgres.port(),
          variable: 'DATABASE_URL',
          url: () => withPort(databaseUrl(), postgresTap.port),
        },
        provider: {
          port: () => Number(new URL(simulator.url).port),
          variable: 'BATON_SIMULATOR_URL',
          url: () => simulator.url,
        },
        ...(redis === null ? {} : { redis: { port: () => redis.port, variable: 'REDIS_URL', url: redisUrl } }),
      },
      tapped: fault.tapped ?? [],
      database,
      timeline,
      strikes,
      random: random.fork('fleet'),
      environmentOf: fault.environmentOf,
      onStart: fault.onStart,
      onMember: fault.onMember,
    }),
  );
  const places = { url: api.url(), database, simulator, databaseUrl: databaseUrl(), prefix };
  const edges =
    fault.edges === undefined
      ? null
      : await startEdges(fault.edges, { ...places, redisUrl: redis === null ? null : redisUrl() }, stack);
  return {
    backend,
    folder,
    environment,
    postgres,
    redis,
    postgresTap,
    database,
    simulator,
    model,
    people: new EventEmitter(),
    api,
    fleet,
    timeline,
    strikes,
    ledgerFile,
    begunWhilePaused: [],
    treeCancels: [],
    sessions: fault.traffic?.sessions ?? options.sessions,
    losses: [],
    standing: [],
    edges,
  };
}

/** Creates a migrated database in the suite's Postgres. Its address changes when that Postgres is restarted. */
async function createDatabase(postgres: OwnPostgres, stack: AsyncDisposableStack): Promise<() => string> {
  const name = `baton_faults_${randomBytes(6).toString('hex')}`;
  const admin = async (statement: string): Promise<void> => {
    const client = new pg.Client({ connectionString: postgres.connectionString() });
    await client.connect();
    await client.query(statement).finally(() => client.end());
  };
  await admin(`create database ${name}`);
  // A vacuum under way there cannot be ended, so the drop may fail. The database goes with the server anyway.
  stack.defer(() => admin(`drop database ${name} with (force)`).catch(() => undefined));
  const url = (): string => {
    const changed = new URL(postgres.connectionString());
    changed.pathname = `/${name}`;
    return changed.href;
  };
  await migrateQueueTables(url());
  const db = openDatabase({ connectionString: url() });
  await migrateToLatest(db);
  await db.destroy();
  return url;
}

function openPool(connectionString: string): pg.Pool {
  const pool = new pg.Pool({ connectionString, max: 2 });
  pool.on('error', () => undefined);
  pool.on('connect', (client) => client.on('error', () => undefined));
  return pool;
}

async function startApiProcess(
  environment: () => Readonly<Record<string, string>>,
  { hearApi }: Timeline,
): Promise<ApiProcess> {
  const start = (): Promise<Child> => startChild({ file: API_FILE, environment: environment(), onLine: hearApi });
  const state = { child: await start(), stopping: false };
  const ownEnds: string[] = [];
  const supervise = (): void => {
    void state.child.ended.then(async () => {
      const ownEnd = state.child.ownEnd();
      if (ownEnd !== null) ownEnds.push(`the API ended by itself: ${ownEnd}`);
      while (!state.stopping) {
        try {
          state.child = await start();
          return supervise();
        } catch {
          // A service that the API needs may be away: the API is started again until it stays.
        }
      }
    });
  };
  supervise();
  return {
    url: () => String(state.child.started['url']),
    child: () => state.child,
    ownEnds: () => ownEnds,
    async [Symbol.asyncDispose]() {
      state.stopping = true;
      state.child.kill('SIGKILL');
      await state.child.ended;
    },
  };
}

function withPort(url: string, port: number): string {
  const changed = new URL(url);
  changed.port = String(port);
  return changed.href;
}
