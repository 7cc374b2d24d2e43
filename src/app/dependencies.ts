import { hostname } from 'node:os';
import { sql } from 'kysely';
import { CODE_PREFIX } from '../agents/tool-sources.ts';
import type { FailurePorts } from '../commands/after-commit.ts';
import type { CommandPorts } from '../commands/ports.ts';
import { type ChildKeeper, createChildKeeper } from '../delegation/child-keeper.ts';
import { BatonError } from '../domain/errors.ts';
import type { InboxLimits } from '../domain/run/inbox-limits.ts';
import { STORE_ANSWER_WITHIN_MS, WRITE_PROBE_INTERVAL_MS } from '../domain/tunables.ts';
import { EmbeddedPostgresError } from '../embedded/errors.ts';
import type { LiveBus } from '../events/live-bus.ts';
import { createPostgresBus } from '../events/postgres-bus.ts';
import { createRedisBus } from '../events/redis-bus.ts';
import { createMetrics, type Metrics } from '../metrics/metrics.ts';
import { batonCommand } from '../platform/baton-command.ts';
import type { Config } from '../platform/config.ts';
import { inSchema } from '../platform/database-schema.ts';
import { AsyncDisposableStack } from '../platform/disposable-stacks.ts';
import { watchEventLoop } from '../platform/event-loop-watch.ts';
import { atMostEvery, createHealth, type Health } from '../platform/health.ts';
import { createLog, type Log, toSafeError } from '../platform/log.ts';
import { newId } from '../platform/new-id.ts';
import { sayOnceAMinute } from '../platform/once-a-minute.ts';
import { checkProxies } from '../platform/proxy.ts';
import { type RedisServer, redisServerOf } from '../platform/redis-server.ts';
import { VARIABLES } from '../platform/settings.ts';
import { createWorkWatch, type WorkWatch } from '../platform/work-watch.ts';
import type { JobQueues } from '../queues/job-queue.ts';
import { migrateQueueTables } from '../queues/migrate.ts';
import { openQueues } from '../queues/open-queues.ts';
import { holdPrefix } from '../queues/prefix-hold.ts';
import { createLeftWorkStop } from '../step/left-work.ts';
import type { CallerPool } from '../store/db/caller-pool.ts';
import { type Db, openDatabase, openLentDatabase } from '../store/db/database.ts';
import { readDatabaseIdentity } from '../store/db/database-identity.ts';
import { createHistoryWatch, type HistoryWatch } from '../store/db/history.ts';
import { isLatest, migrateToLatest, pendingChanges } from '../store/db/migrate.ts';
import { whyStoreUnavailable } from '../store/db/store-unavailable.ts';
import { probeWrite } from '../store/db/write-probe.ts';
import type { TenantQuota } from '../store/session/quota.ts';
import type { Environment } from '../tools/environment.ts';
import { checkConnections } from './check-connections.ts';
import { checkPostgres, checkRedis } from './check-stores.ts';
import { type AgentOptions, type AgentParts, openAgentParts } from './open-agents.ts';
import { checkWorkspaceIsApart } from './own-places.ts';

type StartEmbedded = typeof import('../embedded/launcher.ts').startEmbeddedPostgres;

/** The parts of every process of the service. Disposing them closes everything that was opened, last first. */
export type Dependencies = AgentParts &
  CommandPorts &
  Pick<FailurePorts, 'stopLeftWork'> &
  Readonly<{
    config: Config;
    databaseUrl: string;
    metrics: Metrics;
    health: Health;
    /** Of the work that this process repeats for ever. */
    watch: WorkWatch;
    /** Looks after children: see `createChildKeeper`. */
    children: ChildKeeper;
    workerId: string;
    /** Whether agents may have the workspace tools, for which workers make the folder. */
    hasWorkspace: boolean;
    /** The variables that files of settings name. */
    environment: Environment;
    /** The tools in code of this process, by the names that sessions keep. */
    code: readonly string[];
    /** Resolves with the cause when the embedded Postgres is gone for good and the process must end. Never rejects. */
    lost: Promise<Error>;
  }>;

export type DependencyOptions = AgentOptions &
  Readonly<{
    /** Bring the schema up to date at the start. Otherwise a database that is behind is refused. */
    migrate: boolean;
    /** Number of kinds of jobs that the process works on, to count its connections; absent: nothing is counted. */
    jobKinds?: number;
    log?: Log;
    /** Used for the service's own queries, in place of a pool of its own; it leads to the database of the settings. */
    pool?: CallerPool;
  }>;

/**
 * Opens everything that the configuration names. Without a database URL it starts an embedded Postgres; without a Redis
 * URL the queue and live events use Postgres, by the same code paths.
 * @throws BatonError `config_invalid`; `store_unavailable` for a Postgres or Redis that cannot be reached
 */
export async function openDependencies(config: Config, options: DependencyOptions): Promise<Dependencies> {
  checkProxies();
  await checkWorkspaceIsApart(config);
  await using stack = new AsyncDisposableStack();
  const metrics = createMetrics();
  const patient = stack.use(sayOnceAMinute(options.log ?? createLog({ level: config.logLevel })));
  const log = metrics.counting(patient.log);
  const { databaseUrl, lost } = await openPostgres(config, log, stack);
  await checkPostgres(databaseUrl, config.databaseUrl === undefined ? 'the embedded Postgres' : VARIABLES.databaseUrl);
  const redis = redisServerOf(config);
  if (redis !== undefined) await checkRedis(redis);
  const history = createHistoryWatch((error) =>
    log('debug', { event: 'database_connection_lost', error: toSafeError(error) }),
  );
  const db = await openStore(config, { databaseUrl, history, log }, options.pool);
  stack.defer(() => db.destroy());
  if (options.jobKinds !== undefined) await checkConnections(db, config, options.jobKinds, log);
  await prepareSchema(db, { databaseUrl, config, log, migrate: options.migrate || config.databaseUrl === undefined });
  const watch = createWorkWatch({
    postgres: () => checkPostgres(databaseUrl),
    queue: async () => redis !== undefined && (await checkRedis(redis, config.queuePrefix)),
  });
  stack.use(await history.begin(db));
  stack.use(history.onChange(() => log('warn', { event: 'history_changed', epoch: history.epoch() ?? '' })));
  const bus = stack.use(await openBus(config, redis, databaseUrl, log));
  const jobs = stack.use(await openQueues(config, databaseUrl, log, watch));
  const workerId = `${hostname()}-${process.pid}-${newId().slice(-6)}`;
  const holder = { prefix: config.queuePrefix, databaseId: await readDatabaseIdentity(db), workerId, log };
  stack.use(await holdPrefix(jobs, holder));
  const health = openHealth(db, jobs, stack);
  const agentParts = stack.use(await openAgentParts(config, { db, log }, options));
  const limits = messageLimits(config);
  const children = stack.use(createChildKeeper({ db, jobs, bus, log, newId, ...agentParts, ...limits }));
  const dependencies = {
    children,
    lookAfterChildren: children.look,
    stopLeftWork: createLeftWorkStop({ log, toolsOf: agentParts.toolsOf }),
    ...limits,
    config,
    databaseUrl,
    db,
    jobs,
    bus,
    log,
    metrics,
    health,
    watch,
    ...agentParts,
    newId,
    environment: options.environment ?? process.env,
    hasWorkspace: options.hasWorkspace !== false,
    code: Object.keys(options.toolSets ?? {}).filter((name) => name.startsWith(CODE_PREFIX)),
    workerId,
    lost,
  };
  const owned = stack.move();
  return { ...dependencies, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

async function openStore(
  { databaseConnections: maxConnections }: Config,
  { databaseUrl, history, log }: Readonly<{ databaseUrl: string; history: HistoryWatch; log: Log }>,
  lent: CallerPool | undefined,
): Promise<Db> {
  const connecting = {
    connectionString: databaseUrl,
    onConnect: history.readOn,
    answerWithinMs: STORE_ANSWER_WITHIN_MS,
    onConnectionError: (error: Error) => log('warn', { event: 'database_connection_lost', error: toSafeError(error) }),
  };
  return lent === undefined ? openDatabase({ ...connecting, maxConnections }) : openLentDatabase(lent, connecting);
}

/** The limits that every accepted message keeps to. */
function messageLimits(config: Config): Readonly<{ quota: TenantQuota; inboxLimits: InboxLimits }> {
  const { tenantTokensPerDay, tenantCostUsdPerDay, tenantStoredBytes, inboxMessages, inboxBytes } = config;
  return {
    quota: { tokensPerDay: tenantTokensPerDay, costUsdPerDay: tenantCostUsdPerDay, storedBytes: tenantStoredBytes },
    inboxLimits: { messages: inboxMessages, bytes: inboxBytes },
  };
}

/** Postgres must take writes. A queue that is away only delays work, and a stuck event loop answers no request. */
function openHealth(db: Db, jobs: JobQueues, stack: AsyncDisposableStack): Health {
  const health = createHealth();
  const loop = stack.use(watchEventLoop());
  const probe = atMostEvery(WRITE_PROBE_INTERVAL_MS, () => probeWrite(db));
  health.add('postgres', () => tellWhy(async () => Promise.all([sql`select 1`.execute(db), probe()])));
  health.add('queue', () => jobs.probe());
  health.add('event_loop', () => {
    if (loop.wasStuck()) throw new Error('the event loop was stuck a moment ago');
  });
  return health;
}

/** Replaces the error by the database's own reason. */
async function tellWhy(check: () => Promise<unknown>): Promise<void> {
  try {
    await check();
  } catch (error) {
    throw new Error(whyStoreUnavailable(error) ?? toSafeError(error).message, { cause: error });
  }
}

async function openPostgres(
  { databaseUrl, dataDir, schema }: Config,
  log: Log,
  stack: AsyncDisposableStack,
): Promise<Pick<Dependencies, 'databaseUrl' | 'lost'>> {
  // An external server may come back at any time.
  if (databaseUrl !== undefined) return { databaseUrl, lost: new Promise(() => undefined) };
  const postgres = await startEmbedded({
    dataDir,
    log: (line) => log('debug', { event: 'embedded_postgres', line }),
    onDown: (error, retryInMs) =>
      log('error', { event: 'embedded_postgres_down', retryInMs, error: toSafeError(error) }),
    onUp: (pid) => log('info', { event: 'embedded_postgres_restarted', pid }),
  });
  stack.use(postgres);
  return { databaseUrl: inSchema(postgres.connectionString, schema), lost: postgres.lost };
}

/** Its code is loaded only here: a program with a database of its own needs none of it. */
async function startEmbedded(options: Parameters<StartEmbedded>[0]): ReturnType<StartEmbedded> {
  const { startEmbeddedPostgres } = await import('../embedded/launcher.ts');
  try {
    return await startEmbeddedPostgres(options);
  } catch (error) {
    if (!(error instanceof EmbeddedPostgresError && error.code === 'EMBEDDED_POSTGRES_UNSUPPORTED')) throw error;
    throw new BatonError('config_invalid', error.message, { cause: error });
  }
}

async function prepareSchema(
  db: Db,
  { databaseUrl, config, log, migrate }: Readonly<{ databaseUrl: string; config: Config; log: Log; migrate: boolean }>,
): Promise<void> {
  if (!migrate) return refuseOldSchema(db);
  if (!(await isLatest(db))) {
    const names = await applyChanges(databaseUrl, config);
    if (names.length > 0) log('info', { event: 'migrations_applied', names });
  }
  if (config.redisUrl === undefined) await migrateQueueTables(databaseUrl, config.schema);
}

async function refuseOldSchema(db: Db): Promise<void> {
  const pending = await pendingChanges(db);
  if (pending.length === 0) return;
  throw new BatonError(
    'config_invalid',
    `the database lacks ${pending.length} migrations and functions: run "${batonCommand()} migrate"`,
  );
}

async function applyChanges(databaseUrl: string, { schema }: Config): Promise<string[]> {
  // No limit on answers: a migration may take long, or wait for one of another process.
  const db = openDatabase({ connectionString: databaseUrl, maxConnections: 2 });
  try {
    return await migrateToLatest(db, schema);
  } finally {
    await db.destroy();
  }
}

function openBus(config: Config, redis: RedisServer | undefined, databaseUrl: string, log: Log): Promise<LiveBus> {
  const onError = (error: unknown): void => log('warn', { event: 'bus_error', error: toSafeError(error) });
  return redis === undefined
    ? createPostgresBus({ connectionString: databaseUrl, prefix: ownName(config), onError })
    : createRedisBus({ ...redis, prefix: config.queuePrefix, onError });
}

/** Of Baton's channels: all programs of a database share their names. */
const ownName = ({ schema }: Config): string => (schema === undefined ? 'baton' : `baton_${schema}`);
