import path from 'node:path';
import type { Agent, AgentCatalogue, AgentSet } from '../agents/agent.ts';
import { openAgentFolder } from '../agents/agent-folder.ts';
import { checkChildren } from '../agents/child-agents.ts';
import { checkDefault } from '../agents/default-agent.ts';
import { createCatalogue } from '../agents/load-agents.ts';
import { loadMcpServers } from '../agents/mcp-servers.ts';
import type { ToolLimits } from '../agents/tool-sources.ts';
import { createCompactorLoader, type LoadCompactor } from '../compaction/load-compactor.ts';
import { limitsOf, type ModelOverride } from '../domain/context/limits/model-entry.ts';
import { isModuleStrategy } from '../domain/context/limits/policy.ts';
import { thresholdTooLow } from '../domain/context/meter/threshold-floor.ts';
import { BatonError } from '../domain/errors.ts';
import { PIN_WITHIN_MS } from '../domain/tunables.ts';
import type { HttpDeps } from '../http/http-deps.ts';
import { checkSettings } from '../model/check-settings.ts';
import { checkPrices, modelsOf } from '../model/configured-models.ts';
import { createModelBook } from '../model/describe-model.ts';
import { type GivenModel, withGivenModels } from '../model/given-models.ts';
import { loadOverrides } from '../model/load-overrides.ts';
import type { ModelPort } from '../model/model-port.ts';
import { openPriceRegistry } from '../model/price-registry.ts';
import { loadProviders } from '../model/provider-configs.ts';
import { createModels } from '../model/providers.ts';
import type { Config } from '../platform/config.ts';
import { AsyncDisposableStack } from '../platform/disposable-stacks.ts';
import type { Log } from '../platform/log.ts';
import { lookEvery } from '../platform/looker.ts';
import type { Db } from '../store/db/database.ts';
import { createToolCatalogue, type ToolCatalogue } from '../tools/catalogue.ts';
import { checkAgentTools } from '../tools/check-agent-tools.ts';
import { createChildTools } from '../tools/child-tools.ts';
import type { Environment } from '../tools/environment.ts';
import { createHttpTool } from '../tools/http/http-tool.ts';
import { createModuleLoader } from '../tools/load-module.ts';
import { createMcpServers, type McpServers } from '../tools/mcp/mcp-servers.ts';
import { missingCommands } from '../tools/mcp/missing-commands.ts';
import { createSessionTools } from '../tools/session-tools.ts';
import type { Tool } from '../tools/tool.ts';
import { workspaceLimitsOf } from '../tools/workspace/workspace-limits.ts';
import { createWorkspaceTools } from '../tools/workspace/workspace-tools.ts';

/** Longer than `current` rests between two looks at the files. */
const AGENTS_LOOK_MS = 2_000;

/** The agents and their parts. Disposing them closes the connections to MCP servers. */
export type AgentParts = AsyncDisposable &
  Required<
    Pick<HttpDeps, 'agents' | 'models' | 'describeModel' | 'modelCheck' | 'toolsOf' | 'pinTools' | 'leftOutTools'>
  > &
  Readonly<{
    loadCompactor: LoadCompactor;
    /** Time for an MCP server to list its tools to a fire or a child. */
    pinWithinMs: number;
    /** Resolves when all warnings of the start are logged. */
    warned: Promise<void>;
  }>;

export type AgentOptions = Readonly<{
  /** Used in place of the agents in the folder. */
  agents?: AgentCatalogue;
  /** Agents that a program defines, in place of the folder. They are checked like files. */
  defined?: readonly Agent[];
  /** Models of the AI SDK by `provider/model`, besides those that the configuration has. */
  givenModels?: ReadonlyMap<string, GivenModel>;
  /** Properties of models that override the registry and the configured file. */
  modelOverrides?: readonly ModelOverride[];
  /** False: there is no set `workspace`. */
  hasWorkspace?: boolean;
  /** Tool sets besides the built-in ones. */
  toolSets?: Readonly<Record<string, readonly Tool[]>>;
  /** Time for an MCP server to list its tools to a fire or a child. Default: `PIN_WITHIN_MS`. */
  pinWithinMs?: number;
  /** The variables that agents and MCP servers name. Default: those of the process. */
  environment?: Environment;
  /** Puts others in the place of models, tools and agents: of a session that is played again. */
  adapt?: Readonly<{
    models: (models: ModelPort) => ModelPort;
    toolsOf: (toolsOf: ToolCatalogue) => ToolCatalogue;
    pinTools: (pin: McpServers['pin']) => McpServers['pin'];
    agents: (agents: AgentCatalogue) => AgentCatalogue;
  }>;
}>;

/** @throws BatonError `config_invalid` that names the wrong file and key */
export async function openAgentParts(
  config: Config,
  { db, log }: Readonly<{ db: Db; log: Log }>,
  options: AgentOptions,
): Promise<AgentParts> {
  await using stack = new AsyncDisposableStack();
  const environment = options.environment ?? process.env;
  const servers = loadMcpServers(config.mcpFile);
  const mcp = stack.use(createMcpServers(servers, { environment, log }));
  const { adapt } = options;
  const ownTools = openTools(config, { db, mcp, environment }, options);
  const toolsOf = adapt?.toolsOf(ownTools) ?? ownTools;
  const loadCompactor = createCompactorLoader(config.agentsDir, config.workspaceDir);
  const { describeModel, pricesOf } = createModelBook({
    registry: await openPriceRegistry(),
    overrides: [...loadOverrides(config.modelsFile), ...(options.modelOverrides ?? [])],
  });
  const configured = createModels({ ...config, providers: loadProviders(config.providersFile, environment) });
  const ownModels = withGivenModels(options.givenModels ?? new Map(), configured);
  const models = adapt?.models(ownModels) ?? ownModels;
  const modelCheck = { models, pricesOf, hasCostQuota: config.tenantCostUsdPerDay > 0 };
  let warned = Promise.resolve();
  const onLoad = (agents: AgentSet): void => {
    for (const missing of missingCommands(agents, servers, environment)) {
      log('warn', { event: 'mcp_command_missing', ...missing });
    }
    // Not awaited: an endpoint may be slow to describe its model.
    warned = warnOfModels(agents, { models, describeModel, log });
  };
  const parts = { toolsOf, loadCompactor, modelCheck, log, onLoad };
  const ownAgents =
    options.agents ?? (await (options.defined ? checkDefined(options.defined, parts) : openAgents(config, parts)));
  const agents = adapt?.agents(ownAgents) ?? ownAgents;
  // The log tells of a wrong file when it is written, not with the next request.
  stack.use(lookEvery(AGENTS_LOOK_MS, () => ownAgents.current().catch(() => undefined)));
  stack.use(mcp.closeUnused(agents));
  const owned = stack.move();
  return {
    agents,
    models,
    describeModel,
    modelCheck,
    toolsOf,
    loadCompactor,
    pinTools: adapt?.pinTools(mcp.pin) ?? mcp.pin,
    pinWithinMs: options.pinWithinMs ?? PIN_WITHIN_MS,
    leftOutTools: mcp.leftOut,
    warned,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function openTools(
  config: Config,
  { db, mcp, environment }: Readonly<{ db: Db; mcp: McpServers; environment: Environment }>,
  { hasWorkspace, toolSets }: AgentOptions,
): ToolCatalogue {
  const outbound = {
    allowPrivate: config.httpToolsAllowPrivate,
    allowedHosts: config.httpToolsAllowedHosts,
    usesProxy: true,
  };
  const workspace = (limits: ToolLimits) =>
    createWorkspaceTools({ root: config.workspaceDir, limits: workspaceLimitsOf(limits) });
  return createToolCatalogue({
    sets: { ...(hasWorkspace !== false && { workspace }), ...toolSets },
    builtIn: createSessionTools(db),
    childTools: createChildTools(db),
    loadModule: createModuleLoader(config.agentsDir, config.workspaceDir),
    createHttpTool: (tool, key) => createHttpTool(tool, environment, outbound, key),
    mcp,
  });
}

type CheckParts = Pick<AgentParts, 'toolsOf' | 'loadCompactor' | 'modelCheck'>;
type LoadParts = CheckParts & Readonly<{ log: Log; onLoad: (agents: AgentSet) => void }>;

function openAgents(
  { agentsDir: folder, model }: Config,
  { log, onLoad, ...parts }: LoadParts,
): Promise<AgentCatalogue> {
  // The settings are for the agent's own model. Another model in its place gets only those that it supports.
  const check = (agent: Agent, agents: AgentSet) => checkAgent(agent, agents, parts, model === undefined);
  return openAgentFolder({ folder, model, check, filesOf: (agent) => modulesOf(agent, folder), onLoad, log });
}

/** @throws BatonError `config_invalid` that names the agent and the key */
async function checkDefined(
  defined: readonly Agent[],
  { onLoad, log: _log, ...parts }: LoadParts,
): Promise<AgentCatalogue> {
  const catalogue = createCatalogue(defined);
  for (const agent of defined) {
    try {
      await checkAgent(agent, catalogue, parts, true);
    } catch (error) {
      if (!(error instanceof BatonError)) throw error;
      throw new BatonError('config_invalid', `agent ${agent.name}: ${error.message}`, { cause: error });
    }
  }
  onLoad(catalogue);
  return catalogue;
}

async function checkAgent(
  agent: Agent,
  agents: AgentSet,
  { toolsOf, loadCompactor, modelCheck }: CheckParts,
  checksSettings: boolean,
): Promise<void> {
  await checkAgentTools(agent, toolsOf);
  checkChildren(agent, agents);
  checkDefault(agent, agents);
  const { strategy } = agent.context.compaction;
  if (isModuleStrategy(strategy)) await loadCompactor(strategy);
  refuseLowThreshold(agent);
  checkPrices(agent, agents, modelCheck);
  if (checksSettings) checkSettings(agent, modelCheck.models);
}

const THRESHOLD_KEY = 'context.compaction.options.thresholdPercent';

/** @throws BatonError `config_invalid`: by the file alone, no compaction can bring a view below the threshold */
function refuseLowThreshold({ context, instructions }: Agent): void {
  const low = thresholdTooLow(context, instructions, null);
  if (low === null) return;
  const what = `${low.thresholdTokens} tokens are less than instructions and the shortest summary (${low.leastTokens})`;
  throw new BatonError('config_invalid', `${THRESHOLD_KEY}: ${what}: raise it, or maxContextTokens`);
}

const modulesOf = ({ tools }: Agent, folder: string): string[] =>
  tools.flatMap((source) =>
    typeof source === 'string' || source.module === undefined ? [] : [path.resolve(folder, source.module)],
  );

/** Logs the agents whose model has no provider, and those whose model has an unknown window. */
async function warnOfModels(
  agents: AgentSet,
  { models, describeModel, log }: Pick<AgentParts, 'models' | 'describeModel'> & Readonly<{ log: Log }>,
): Promise<void> {
  const modelNames = agents
    .names()
    .flatMap((agent) => modelsOf(agents.get(agent), agents).map((model) => ({ agent, model })));
  await Promise.all(
    modelNames.map(async ({ agent, model }) => {
      try {
        const entry = await describeModel(models(model));
        const { isGuessed, contextWindow } = entry;
        if (isGuessed) log('warn', { event: 'agent_window_guessed', agent, model, contextWindow });
        const { context, instructions } = agents.get(agent);
        const low = thresholdTooLow(context, instructions, limitsOf(entry));
        if (low !== null) log('warn', { event: 'agent_threshold_low', agent, model, ...low });
      } catch (error) {
        if (!(error instanceof BatonError)) throw error;
        log('warn', { event: 'agent_without_provider', agent, model });
      }
    }),
  );
}
