import type { Agent } from '../agents/agent.ts';
import { namePrefix } from '../agents/pinned-tools.ts';
import { type HttpToolConfig, type ToolLimits, type ToolSource, toolSourceLabel } from '../agents/tool-sources.ts';
import { didYouMean } from '../domain/did-you-mean.ts';
import { BatonError } from '../domain/errors.ts';
import { childInputSchema, DEFAULT_MAX_PARALLEL } from '../domain/run/child.ts';
import { RESULT_TOOL } from '../domain/run/output-format.ts';
import type { LoadToolModule } from './load-module.ts';
import type { McpServers } from './mcp/mcp-servers.ts';
import { createSearchTools } from './search-tools.ts';
import { isServerTool, type Tool } from './tool.ts';

type AgentTools = Pick<Agent, 'name' | 'tools' | 'toolLimits' | 'approvals' | 'mcpServers' | 'pinnedTools'>;

/** Builds an agent's tools once per definition. @throws BatonError `config_invalid` with the agent's key */
export type ToolCatalogue = (agent: AgentTools) => Promise<readonly Tool[]>;

/** Related tools. If they have limits of their own, they are created for those of the agent. */
type ToolSet = readonly Tool[] | ((limits: ToolLimits) => readonly Tool[]);

type ToolCatalogueOptions = Readonly<{
  /** By the name of the set. */
  sets: Readonly<Record<string, ToolSet>>;
  /** Tools of every agent that has any tool, whether it names them or not. Their names are reserved. */
  builtIn?: readonly Tool[];
  /** Tools of every agent that gives tasks in the background. */
  childTools?: readonly Tool[];
  loadModule?: LoadToolModule;
  createHttpTool?: (config: HttpToolConfig, key: string) => Tool;
  mcp?: Pick<McpServers, 'toolsOf'>;
}>;

/** Limit of the kept definitions: those of the agents, and those of sessions with earlier versions. */
const MAX_KEPT = 500;

/**
 * Builds the tools of an agent's definition, and keeps those of the last 500 definitions. Its promise rejects with
 * BatonError `config_invalid` if a tool is unavailable or its name is taken; the next request builds again.
 */
export function createToolCatalogue(options: ToolCatalogueOptions): ToolCatalogue {
  const kept = new Map<string, Promise<readonly Tool[]>>();
  return (agent) => {
    const key = keyOfAgent(agent);
    const cached = kept.get(key);
    if (cached !== undefined) return cached;
    const built = buildTools(options, agent);
    kept.set(key, built);
    // A missing module may exist at the next request.
    built.catch(() => kept.delete(key));
    const oldest = kept.keys().next();
    if (kept.size > MAX_KEPT && !oldest.done) kept.delete(oldest.value);
    return built;
  };
}

/** Pinned definitions count by their hash: they may be long. */
function keyOfAgent({ name, tools, toolLimits, approvals, mcpServers, pinnedTools = {} }: AgentTools): string {
  const pins = Object.entries(pinnedTools).map(([server, { hash }]) => [server, hash]);
  return JSON.stringify([name, tools, toolLimits, approvals, mcpServers, pins]);
}

async function buildTools(options: ToolCatalogueOptions, agent: AgentTools): Promise<readonly Tool[]> {
  const { builtIn = [] } = options;
  const named = namedTools(options, agent.toolLimits);
  const tools = new Map<string, Tool>();
  const add = (key: string, tool: Tool): void => {
    if (tool.name === RESULT_TOOL) {
      throw new BatonError(
        'config_invalid',
        `${key}: ${RESULT_TOOL} is the name of the tool that gives a run's result`,
      );
    }
    const namesake = tools.get(tool.name) ?? builtIn.find(({ name }) => name === tool.name) ?? tool;
    if (namesake !== tool) throw new BatonError('config_invalid', `${key}: there is another tool named ${tool.name}`);
    tools.set(tool.name, tool);
  };
  for (const [index, source] of agent.tools.entries()) {
    const key = keyOf(source, index);
    for (const tool of await toolsOfSource(options, { named, agent, source, key })) add(key, tool);
  }
  if ([...tools.values()].some(({ child }) => child?.mode === 'background')) {
    for (const tool of options.childTools ?? []) add('tools', tool);
  }
  const deferred = [...tools.values()].filter((tool) => tool.deferred === true);
  if (deferred.length > 0) add('tools', createSearchTools(deferred));
  if (tools.size > 0) for (const tool of builtIn) tools.set(tool.name, tool);
  return withApprovals(withLimits(tools, agent), agent);
}

/** The key of a source as the errors name it: `tools.0`, `tools.1.module`. */
function keyOf(source: ToolSource, index: number): string {
  if (typeof source === 'string') return `tools.${index}`;
  const kind = (['module', 'http', 'mcp', 'client', 'agent'] as const).find(
    (candidate) => source[candidate] !== undefined,
  );
  return `tools.${index}.${kind}`;
}

async function toolsOfSource(
  { loadModule, createHttpTool, mcp: servers }: ToolCatalogueOptions,
  {
    named,
    agent,
    source,
    key,
  }: Readonly<{ named: ReadonlyMap<string, readonly Tool[]>; agent: AgentTools; source: ToolSource; key: string }>,
): Promise<readonly Tool[]> {
  if (typeof source === 'string') {
    const tools = named.get(source);
    if (tools !== undefined) return tools;
    // The service has them always, a program where it names their folder.
    if (source === 'workspace') {
      throw new BatonError('config_invalid', `${key}: the tools of a workspace need its folder: set workspaceDir`);
    }
    const which = didYouMean(source, named.keys()) || `; known: ${[...named.keys()].sort().join(', ')}`;
    throw new BatonError('config_invalid', `${key}: there is no tool or tool set named ${source}${which}`);
  }
  const { module, http, mcp, client, include, exclude, deferred } = source;
  if (client !== undefined) return [client];
  if (source.agent !== undefined) return [createChildTool(source.agent, source)];
  if (module !== undefined && loadModule !== undefined) return loadModule(module, agent.name, key);
  if (http !== undefined && createHttpTool !== undefined) return [createHttpTool(http, key)];
  if (mcp !== undefined && servers !== undefined) {
    const which = { ...(include && { include }), ...(exclude && { exclude }), ...(deferred && { deferred }) };
    return servers.toolsOf(agent, { mcp, ...which }, key);
  }
  throw new BatonError('config_invalid', `${key}: ${toolSourceLabel(source)} cannot be had here`);
}

/** Sets and tools by their names. A built-in tool replaces every tool of its name. */
function namedTools({ sets, builtIn = [] }: ToolCatalogueOptions, limits: ToolLimits): Map<string, readonly Tool[]> {
  const builtInByName = new Map(builtIn.map((tool) => [tool.name, tool]));
  const named = new Map<string, readonly Tool[]>(builtIn.map((tool) => [tool.name, [tool]]));
  for (const [name, set] of Object.entries(sets)) {
    const tools = typeof set === 'function' ? set(limits) : set;
    const own = tools.map((tool) => builtInByName.get(tool.name) ?? tool);
    for (const tool of own) if (!named.has(tool.name)) named.set(tool.name, [tool]);
    named.set(name, own);
  }
  return named;
}

function withLimits(tools: ReadonlyMap<string, Tool>, agent: AgentTools): readonly Tool[] {
  const { toolLimits } = agent;
  const unknown = Object.keys(toolLimits).find((name) => !tools.has(name) && !mayBeOfServer(agent, name));
  if (unknown !== undefined) {
    throw new BatonError('config_invalid', `toolLimits.${unknown}: the agent has no tool of this name`);
  }
  return [...tools.values()].map((tool) => {
    const maxOutputChars = toolLimits[tool.name]?.maxOutputChars;
    return maxOutputChars === undefined ? tool : { ...tool, maxOutputChars };
  });
}

/** True: an MCP server may offer this tool. Its list is only known when a session is created, and may change. */
function mayBeOfServer(agent: AgentTools, name: string): boolean {
  return agent.tools.some(
    (source) => typeof source !== 'string' && source.mcp !== undefined && name.startsWith(namePrefix(source.mcp)),
  );
}

/** The agent's approvals are added to those that its tools require by themselves. */
function withApprovals(tools: readonly Tool[], agent: AgentTools): readonly Tool[] {
  const { approvals } = agent;
  for (const [index, name] of approvals.entries()) {
    const tool = tools.find((candidate) => candidate.name === name);
    if (isServerTool(tool) || (tool === undefined && mayBeOfServer(agent, name))) continue;
    const problem = tool === undefined ? 'the agent has no tool of this name' : 'the client runs this tool and decides';
    throw new BatonError('config_invalid', `approvals.${index}: ${name}: ${problem}`);
  }
  return tools.map((tool) => (approvals.includes(tool.name) ? { ...tool, needsApproval: true } : tool));
}

type ChildSource = Pick<Exclude<ToolSource, string>, 'description' | 'mode' | 'limits' | 'maxParallel'>;

const HOW = {
  wait: 'Call it several times in one answer to let several work at the same time.',
  background: 'The call ends at once, and you go on with your work; you are told when the agent has ended.',
} as const;

/** The tool by which a model gives tasks to another agent. No worker runs it: its call begins a session. */
function createChildTool(agent: string, source: ChildSource): Tool {
  const { mode = 'wait', limits = {}, maxParallel = DEFAULT_MAX_PARALLEL } = source;
  const description = source.description ?? `Gives a task to the agent ${agent} and returns its answer.`;
  return {
    name: agent,
    description: `${description} ${HOW[mode]}`,
    inputSchema: childInputSchema,
    child: { agent, mode, limits, maxParallel },
  };
}
