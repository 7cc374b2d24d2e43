import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { AgentCatalogue } from '../agents/agent.ts';
import type { Dependencies } from '../app/dependencies.ts';
import type { BatonClient } from '../client/client.ts';
import { BatonError } from '../domain/errors.ts';
import { parseExactly } from '../domain/exact-json.ts';
import { parseId } from '../domain/ids.ts';
import { composeBaton } from '../library/compose.ts';
import { type Config, loadConfig } from '../platform/config.ts';
import { AsyncDisposableStack } from '../platform/disposable-stacks.ts';
import { createLog } from '../platform/log.ts';
import { hasOtherSessions } from '../store/session/sessions.ts';
import type { CaseTool } from './case-file.ts';
import type { Player } from './player.ts';
import { recordedModels } from './recorded-model.ts';
import { pinAsRecorded } from './recorded-pins.ts';
import { recordedTools } from './recorded-tools.ts';

/** The whole service in this process. Its models and tools give recorded answers. */
export type CaseService = AsyncDisposable &
  Readonly<{
    client: BatonClient;
    deps: Dependencies;
    tenantId: string;
    /** Sets the tools of the MCP servers for the next session. No server is asked unless tools are live. */
    offer: (tools: readonly CaseTool[]) => void;
    /** Sets the player that answers in a session. */
    play: (sessionId: string, player: Player) => void;
  }>;

export type CaseServiceOptions = Readonly<{
  /** Default: an embedded Postgres in a temporary folder. */
  databaseUrl?: string | undefined;
  agentsDir?: string | undefined;
  /** The agents' own tools run, in place of recorded results. */
  liveTools: boolean;
  /** The model that answers itself in forks. Default: none does. */
  liveModel?: string | undefined;
}>;

const TENANT_ID = 'baton-test';

/** Placeholder for keys and variables that only a real call would need. */
const PLACEHOLDER = 'recorded';

/**
 * Opens the service for cases, on a database of its own.
 * @throws BatonError `conflict` for a database with sessions of others; `config_invalid`, `store_unavailable`
 */
export async function openCaseService(
  environment: NodeJS.ProcessEnv,
  options: CaseServiceOptions,
): Promise<CaseService> {
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(path.join(tmpdir(), 'baton-test-'));
  stack.defer(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
  const players = new Map<string, Player>();
  let offered: readonly CaseTool[] = [];
  const playerOf = (sessionId: string): Player => {
    const player = players.get(parseId('session', sessionId) ?? sessionId);
    if (player === undefined) throw new BatonError('internal', `no case is played in session ${sessionId}`);
    return player;
  };
  const { liveModel, liveTools } = options;
  const isOffline = liveModel === undefined && !liveTools;
  const { baton, deps } = stack.use(
    await composeBaton(configFor(environment, options, folder), {
      migrate: true,
      log: createLog({ level: 'silent' }),
      environment: isOffline ? withPlaceholders(environment) : environment,
      adapt: {
        models: (models) => recordedModels(models, playerOf, liveModel),
        toolsOf: (toolsOf) => recordedTools(toolsOf, playerOf, liveTools),
        agents: withAnyModel,
        pinTools: (pin) => (liveTools ? pin : async (agent) => pinAsRecorded(agent, offered)),
      },
      openWithoutKeys: false,
      parseJson: parseExactly,
    }),
  );
  if (await hasOtherSessions(deps.db, TENANT_ID)) {
    throw new BatonError(
      'conflict',
      'the database has sessions of others, whose runs would be taken: give an empty one',
    );
  }
  await baton.startWorker();
  const owned = stack.move();
  return {
    deps,
    tenantId: TENANT_ID,
    client: baton.clientOf(TENANT_ID),
    offer(tools) {
      offered = tools;
    },
    play: (sessionId, player) => void players.set(parseId('session', sessionId) ?? sessionId, player),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** The service's settings with its own database, without Redis, hooks and limits. Missing keys get a placeholder. */
function configFor(
  environment: NodeJS.ProcessEnv,
  { databaseUrl, agentsDir }: CaseServiceOptions,
  folder: string,
): Config {
  const { DATABASE_URL: _database, REDIS_URL: _redis, ...others } = environment;
  const config = loadConfig(others);
  return {
    ...config,
    ...(agentsDir !== undefined && { agentsDir }),
    databaseUrl,
    redisUrl: undefined,
    hooksFile: undefined,
    dataDir: path.join(folder, 'data'),
    queuePrefix: path.basename(folder),
    logLevel: 'silent',
    shutdownGraceMs: 0,
    requestsPerMinute: 0,
    tenantConcurrency: 0,
    tenantCostUsdPerDay: 0,
    tenantTokensPerDay: 0,
    retentionDays: 0,
    openaiApiKey: config.openaiApiKey ?? PLACEHOLDER,
    anthropicApiKey: config.anthropicApiKey ?? PLACEHOLDER,
    simulatorUrl: config.simulatorUrl ?? 'http://127.0.0.1:9',
  };
}

/** Variables that only real calls need may be absent: they get a placeholder. */
const withPlaceholders = (environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv =>
  new Proxy(environment, { get: (target, name) => Reflect.get(target, name) || PLACEHOLDER });

/** Lets every agent take any model: a case names its recorded model, which the agent may no longer have. */
function withAnyModel(agents: AgentCatalogue): AgentCatalogue {
  return {
    async current() {
      const { get, names } = await agents.current();
      return { names, get: (name) => ({ ...get(name), models: ['*'] }) };
    },
  };
}
