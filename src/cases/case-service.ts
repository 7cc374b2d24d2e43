import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Agent, AgentCatalogue } from '../agents/agent.ts';
import { hashOfTools, nameForModel, namePrefix, type PinnedTool, type PinnedTools } from '../agents/pinned-tools.ts';
import type { Dependencies } from '../app/dependencies.ts';
import type { BatonClient } from '../client/client.ts';
import { BatonError } from '../domain/errors.ts';
import { parseExactly } from '../domain/exact-json.ts';
import { parseId } from '../domain/ids.ts';
import type { ToolOutput } from '../domain/transcript/message.ts';
import { composeBaton } from '../library/compose.ts';
import { type Config, loadConfig } from '../platform/config.ts';
import { AsyncDisposableStack } from '../platform/disposable-stacks.ts';
import { createLog } from '../platform/log.ts';
import { hasOtherSessions } from '../store/session/sessions.ts';
import type { ToolCatalogue } from '../tools/catalogue.ts';
import { nothingPinned } from '../tools/mcp/mcp-servers.ts';
import type { Tool, ToolContext } from '../tools/tool.ts';
import type { CaseTool } from './case-file.ts';
import type { Player } from './player.ts';
import { recordedModels } from './recorded-model.ts';

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
    messageSearch: false,
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
      const { get, names, find } = await agents.current();
      return { names, find, get: (name) => ({ ...get(name), models: ['*'] }) };
    },
  };
}

/**
 * The agent with the tools of its MCP servers as a case has them, so that no server is asked.
 * @param offered all tools that the model was offered
 */
function pinAsRecorded(agent: Agent, offered: readonly CaseTool[]): Agent {
  const servers = Object.keys(nothingPinned(agent));
  if (servers.length === 0) return agent;
  const pinnedTools: PinnedTools = Object.fromEntries(
    servers.map((server) => {
      const tools = toolsOfServer(agent, server, offered);
      return [server, { hash: hashOfTools(tools), tools }];
    }),
  );
  return { ...agent, pinnedTools };
}

function toolsOfServer({ tools }: Agent, server: string, offered: readonly CaseTool[]): PinnedTool[] {
  const prefix = namePrefix(server);
  const named = tools.flatMap((source) =>
    typeof source === 'string' || source.mcp !== server ? [] : [...(source.include ?? []), ...(source.exclude ?? [])],
  );
  const own = new Map(offered.filter(({ name }) => name.startsWith(prefix)).map((tool) => [tool.name, tool]));
  return [...own.values()].map(({ name, description, inputSchema }) => ({
    // The model's name may be a cleaned one: the agent's file has the server's.
    name: named.find((candidate) => nameForModel(server, candidate) === name) ?? name.slice(prefix.length),
    description,
    inputSchema: { ...(typeof inputSchema === 'object' && !Array.isArray(inputSchema) && inputSchema), type: 'object' },
  }));
}

/**
 * The agents' tools with the results of cases. Name, description, schema and approvals stay those of the tool.
 * @param playerOf the player of a session by its public id
 * @param isLive tools run as they are. Only a task for another agent keeps its recorded result.
 */
function recordedTools(
  toolsOf: ToolCatalogue,
  playerOf: (sessionId: string) => Player,
  isLive: boolean,
): ToolCatalogue {
  // The same list for the same tools, so that they are described and counted once.
  const replacements = new WeakMap<readonly Tool[], readonly Tool[]>();
  return async (agent) => {
    const tools = await toolsOf(agent);
    const replaced =
      replacements.get(tools) ?? tools.map((tool) => (isReplaced(tool, isLive) ? replace(tool, playerOf) : tool));
    replacements.set(tools, replaced);
    return replaced;
  };
}

/** A tool that the client runs has no function: its recorded result is given as the client gave it. */
const isReplaced = ({ child, execute }: Tool, isLive: boolean): boolean =>
  child !== undefined || (execute !== undefined && !isLive);

function replace({ child: _task, ...tool }: Tool, playerOf: (sessionId: string) => Player): Tool {
  return {
    ...tool,
    async execute(input: unknown, { sessionId, toolCallId }: ToolContext) {
      const call = playerOf(sessionId).call({ toolName: tool.name, toolCallId, input });
      if (call?.output === undefined) throw new Error(`The case has no result for this call of ${tool.name}.`);
      if (call.output.type === 'error-text') throw new Error(call.output.value);
      return call.output;
    },
    toModelOutput: ({ output }) => toSdkOutput(output as ToolOutput),
  };
}

/** In the form that a tool may return. */
function toSdkOutput(output: ToolOutput): unknown {
  if (output.type !== 'content') return output;
  const value = output.value.map((item) => {
    if (item.type === 'text') return item;
    const { mediaType, filename, url } = item;
    const data = url.startsWith('data:')
      ? { type: 'data', data: url.slice(url.indexOf(',') + 1) }
      : { type: 'url', url };
    return { type: 'file', mediaType, data, ...(filename !== undefined && { filename }) };
  });
  return { type: 'content', value };
}
