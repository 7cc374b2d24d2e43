import { hostname } from 'node:os';
import path from 'node:path';
import { sql } from 'kysely';
import type { Agent, AgentCatalogue, AgentSet } from '../agents/agent.ts';
import { openAgentFolder } from '../agents/agent-folder.ts';
import { checkSettings } from '../agents/check-settings.ts';
import { checkPrices, type ModelCheck, modelsOf } from '../agents/configured-models.ts';
import { loadMcpServers } from '../agents/mcp-servers.ts';
import { loadProviders } from '../agents/provider-configs.ts';
import { createModels } from '../agents/providers.ts';
import type { ToolLimits } from '../agents/tool-sources.ts';
import type { ModelOverride } from '../domain/context/model-entry.ts';
import { BatonError } from '../domain/errors.ts';
import { STORE_ANSWER_WITHIN_MS, WRITE_PROBE_INTERVAL_MS } from '../domain/tunables.ts';
import { startEmbeddedPostgres } from '../embedded/launcher.ts';
import type { LiveBus } from '../events/live-bus.ts';
import { createPostgresBus } from '../events/postgres-bus.ts';
import { createRedisBus } from '../events/redis-bus.ts';
import { createMetrics, type Metrics } from '../metrics/metrics.ts';
import { createModelBook, type DescribeModel } from '../model/describe-model.ts';
import { loadOverrides } from '../model/load-overrides.ts';
import { openPriceRegistry } from '../model/price-registry.ts';
import type { JobQueues } from '../queues/job-queue.ts';
import { migrateQueueTables } from '../queues/migrate.ts';
import { openQueues } from '../queues/open-queues.ts';
import type { ModelPort } from '../step/model-port.ts';
import { type Db, openDatabase } from '../store/database.ts';
import { migrateToLatest, pendingMigrations } from '../store/migrate.ts';
import { whyStoreAway } from '../store/store-away.ts';
import { probeWrite } from '../store/write-probe.ts';
import { createToolCatalogue, type ToolCatalogue } from '../tools/catalogue.ts';
import { checkAgentTools } from '../tools/check-agent-tools.ts';
import type { Environment } from '../tools/environment.ts';
import { createHttpTool } from '../tools/http/http-tool.ts';
import { createModuleLoader } from '../tools/load-module.ts';
import { createMcpServers, type McpServers } from '../tools/mcp/mcp-servers.ts';
import { createSessionTools } from '../tools/session-tools.ts';
import type { Tool } from '../tools/tool.ts';
import { workspaceLimitsOf } from '../tools/workspace/workspace-limits.ts';
import { createWorkspaceTools } from '../tools/workspace/workspace-tools.ts';
import { checkConnections } from './check-connections.ts';
import { checkPostgres, checkRedis } from './check-stores.ts';
import { type Config, VARIABLES } from './config.ts';
import { watchEventLoop } from './event-loop-watch.ts';
import { atMostEvery, createHealth, type Health } from './health.ts';
import { createLog, type Log, toSafeError } from './log.ts';
import { newId } from './new-id.ts';
import { checkWorkspaceIsApart } from './own-places.ts';

/** What every process of the service is made of. Disposing it closes whatever it opened, last first. */
export type Dependencies = AsyncDisposable &
  Readonly<{
    config: Config;
    databaseUrl: string;
    db: Db;
    jobs: JobQueues;
    bus: LiveBus;
    log: Log;
    metrics: Metrics;
    health: Health;
    agents: AgentCatalogue;
    models: ModelPort;
    describeModel: DescribeModel;
    modelCheck: ModelCheck;
    toolsOf: ToolCatalogue;
    /** The agent as a new session keeps it: with what its MCP servers offer now. */
    pinTools: McpServers['pin'];
    newId: () => string;
    workerId: string;
    /** Resolves with the cause when the embedded Postgres is gone for good: the process cannot go on. Never rejects. */
    lost: Promise<Error>;
  }>;

export type DependencyOptions = Readonly<{
  /** Bring the schema up to date at the start; otherwise a database that is behind is refused. */
  migrate: boolean;
  /** Kinds of jobs that the process works on, for the count of its connections; left out, nothing is counted. */
  jobKinds?: number;
  log?: Log;
  /** Agents in place of those of the folder. */
  agents?: AgentCatalogue;
  /** What is to be known of models, beside the registry and the configured file. */
  modelOverrides?: readonly ModelOverride[];
  /** Tool sets beside the built-in ones. */
  toolSets?: Readonly<Record<string, readonly Tool[]>>;
  /** Where the variables are that agents and MCP servers name. Default: that of the process. */
  environment?: Environment;
}>;

/**
 * Opens everything that the configuration names. Without a database URL an embedded Postgres is started, and without a
 * Redis URL queue and live events go over Postgres: the same code paths, one process.
 * @throws BatonError `config_invalid`; `store_unavailable` for a database or a Redis that cannot be reached
 */
export async function openDependencies(config: Config, options: DependencyOptions): Promise<Dependencies> {
  await checkWorkspaceIsApart(config);
  await using stack = new AsyncDisposableStack();
  const metrics = createMetrics();
  const log = metrics.counting(options.log ?? createLog({ level: config.logLevel }));
  const { databaseUrl, lost } = await openPostgres(config, log, stack);
  await checkPostgres(databaseUrl, config.databaseUrl === undefined ? 'the embedded Postgres' : VARIABLES.databaseUrl);
  if (config.redisUrl !== undefined) await checkRedis(config.redisUrl);
  const db = openDatabase({
    connectionString: databaseUrl,
    maxConnections: config.databaseConnections,
    answerWithinMs: STORE_ANSWER_WITHIN_MS,
    onConnectionError: (error) => log('warn', { event: 'database_connection_lost', error: toSafeError(error) }),
  });
  stack.defer(() => db.destroy());
  if (options.jobKinds !== undefined) await checkConnections(db, config, options.jobKinds, log);
  await prepareSchema(databaseUrl, config, log, options.migrate || config.databaseUrl === undefined);
  const bus = stack.use(await openBus(config, databaseUrl, log));
  const jobs = stack.use(await openQueues(config, databaseUrl, log));
  const health = openHealth(db, jobs, stack);
  const workspace = (limits: ToolLimits) =>
    createWorkspaceTools({ root: config.workspaceDir, limits: workspaceLimitsOf(limits) });
  const environment = options.environment ?? process.env;
  const mcp = stack.use(createMcpServers(loadMcpServers(config.mcpFile), { environment, log }));
  const outbound = { allowPrivate: config.httpToolsAllowPrivate, allowedHosts: config.httpToolsAllowedHosts };
  const toolsOf = createToolCatalogue({
    sets: { workspace, ...options.toolSets },
    builtIn: createSessionTools(db),
    loadModule: createModuleLoader(config.agentsDir, config.workspaceDir),
    createHttpTool: (tool, key) => createHttpTool(tool, environment, outbound, key),
    mcp,
  });
  const { describeModel, pricesOf } = createModelBook({
    registry: await openPriceRegistry(),
    overrides: [...loadOverrides(config.modelsFile), ...(options.modelOverrides ?? [])],
  });
  const models = createModels({ ...config, providers: loadProviders(config.providersFile, environment) });
  const modelCheck = { models, pricesOf, hasCostQuota: config.tenantCostUsdPerDay > 0 };
  const agents = options.agents ?? (await openAgents(config, { toolsOf, modelCheck, describeModel, log }));
  stack.use(mcp.closeUnused(agents));
  const dependencies = {
    config,
    databaseUrl,
    db,
    jobs,
    bus,
    log,
    metrics,
    health,
    agents,
    models,
    describeModel,
    modelCheck,
    toolsOf,
    pinTools: mcp.pin,
    newId,
    workerId: `${hostname()}-${process.pid}-${newId().slice(-6)}`,
    lost,
  };
  const owned = stack.move();
  return { ...dependencies, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

function openAgents(
  { agentsDir: folder, model }: Config,
  { toolsOf, modelCheck, describeModel, log }: Pick<Dependencies, 'toolsOf' | 'modelCheck' | 'describeModel' | 'log'>,
): Promise<AgentCatalogue> {
  const { models } = modelCheck;
  const check = async (agent: Agent, agents: AgentSet): Promise<void> => {
    await checkAgentTools(agent, toolsOf);
    checkPrices(agent, agents, modelCheck);
    // The settings are meant for the agent's own model: another one in its place is told those that it takes.
    if (model === undefined) checkSettings(agent, models);
  };
  // Nobody waits for what an endpoint may tell.
  const onLoad = (agents: AgentSet) => void warnOfModels(agents, { models, describeModel, log });
  return openAgentFolder({ folder, model, check, filesOf: (agent) => modulesOf(agent, folder), onLoad, log });
}

/** The modules of tools that an agent names. */
const modulesOf = ({ tools }: Agent, folder: string): string[] =>
  tools.flatMap((source) =>
    typeof source === 'string' || source.module === undefined ? [] : [path.resolve(folder, source.module)],
  );

/** Names the agents that a model is missing for, or of whose model nobody has told how large its window is. */
async function warnOfModels(
  agents: AgentSet,
  { models, describeModel, log }: Pick<Dependencies, 'models' | 'describeModel' | 'log'>,
): Promise<void> {
  const asked = agents
    .names()
    .flatMap((agent) => modelsOf(agents.get(agent), agents).map((model) => ({ agent, model })));
  await Promise.all(
    asked.map(async ({ agent, model }) => {
      try {
        const { isGuessed, contextWindow } = await describeModel(models(model));
        if (isGuessed) log('warn', { event: 'agent_window_guessed', agent, model, contextWindow });
      } catch (error) {
        if (!(error instanceof BatonError)) throw error;
        log('warn', { event: 'agent_without_provider', agent, model });
      }
    }),
  );
}

/** Without a Postgres that takes writes nothing works, without the queue work is only delayed; a stuck loop answers nobody. */
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

/** With what the database says of itself as the reason. */
async function tellWhy(check: () => Promise<unknown>): Promise<void> {
  try {
    await check();
  } catch (error) {
    throw new Error(whyStoreAway(error) ?? toSafeError(error).message, { cause: error });
  }
}

async function openPostgres(
  { databaseUrl, dataDir }: Config,
  log: Log,
  stack: AsyncDisposableStack,
): Promise<Pick<Dependencies, 'databaseUrl' | 'lost'>> {
  // A server of its own that is away may come back at any time.
  if (databaseUrl !== undefined) return { databaseUrl, lost: new Promise(() => undefined) };
  const postgres = await startEmbeddedPostgres({
    dataDir,
    log: (line) => log('debug', { event: 'embedded_postgres', line }),
    onDown: (error, retryInMs) =>
      log('error', { event: 'embedded_postgres_down', retryInMs, error: toSafeError(error) }),
    onUp: (pid) => log('info', { event: 'embedded_postgres_restarted', pid }),
  });
  stack.use(postgres);
  return { databaseUrl: postgres.connectionString, lost: postgres.lost };
}

async function prepareSchema(databaseUrl: string, config: Config, log: Log, migrate: boolean): Promise<void> {
  await using stack = new AsyncDisposableStack();
  // A migration may take its time, and wait for that of another process: nothing bounds its answers.
  const db = openDatabase({ connectionString: databaseUrl, maxConnections: 2 });
  stack.defer(() => db.destroy());
  if (!migrate) {
    const pending = await pendingMigrations(db);
    if (pending.length === 0) return;
    throw new BatonError('config_invalid', `the database lacks ${pending.length} migrations: run "npm run migrate"`);
  }
  const names = await migrateToLatest(db);
  if (names.length > 0) log('info', { event: 'migrations_applied', names });
  if (config.redisUrl === undefined) await migrateQueueTables(databaseUrl);
}

function openBus(config: Config, databaseUrl: string, log: Log): Promise<LiveBus> {
  const onError = (error: unknown): void => log('warn', { event: 'bus_error', error: toSafeError(error) });
  return config.redisUrl === undefined
    ? createPostgresBus({ connectionString: databaseUrl, onError })
    : createRedisBus({ url: config.redisUrl, prefix: config.queuePrefix, onError });
}
