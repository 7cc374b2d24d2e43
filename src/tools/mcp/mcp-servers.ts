import type { Agent, AgentCatalogue } from '../../agents/agent.ts';
import type { McpServerConfig, McpServerConfigs } from '../../agents/mcp-servers.ts';
import {
  definitionBytes,
  hashOfTools,
  isIncluded,
  type PinnedTool,
  type PinnedTools,
} from '../../agents/pinned-tools.ts';
import type { McpSource } from '../../agents/tool-sources.ts';
import { BatonError } from '../../domain/errors.ts';
import { MAX_SERVER_DEFINITION_BYTES, MAX_SERVER_TOOLS } from '../../domain/tunables.ts';
import type { Log } from '../../platform/log.ts';
import { type Environment, headersFrom, requireVariable } from '../environment.ts';
import type { Tool } from '../tool.ts';
import type { McpConnection } from './connection.ts';
import { checkMcpClient, createLazyConnection } from './load-client.ts';
import { createMcpTool } from './mcp-tool.ts';
import type { LeftOutTool } from './tool-list.ts';

type McpAgent = Pick<Agent, 'tools' | 'mcpServers' | 'pinnedTools'>;

/** The MCP servers of this process: the shared ones, and those that agents define. */
export type McpServers = AsyncDisposable &
  Readonly<{
    /**
     * The tools of a source, as the session has pinned them; no server is asked.
     * @throws BatonError `config_invalid` for a server that is not configured, or has no pinned definitions
     */
    toolsOf: (agent: McpAgent, source: McpSource, key: string) => readonly Tool[];
    /**
     * The agent with its servers' current tools, for a new session.
     * @param withinMs time for each server; absent: as long as a request takes. A server over stdio has that long until
     *   it has listed its tools once: its program may have to be fetched first.
     * @throws BatonError `tools_unavailable` for a server that is unreachable or too slow, or offers more than a session
     *   takes
     */
    pin: (agent: Agent, signal: AbortSignal, withinMs?: number) => Promise<Agent>;
    /** What the agent's servers list and it is not offered, as this process saw it last. No server is asked. */
    leftOut: (agent: McpAgent) => Promise<readonly (LeftOutTool & Readonly<{ server: string }>)[]>;
    /** Periodically closes unused connections that no current agent names. Older sessions open them anew. */
    closeUnused: (agents: AgentCatalogue) => Disposable;
  }>;

/** A user may think this long about the next message of a session. */
const UNUSED_AFTER_MS = 15 * 60_000;

/**
 * The MCP servers of this process, one connection per server and configuration, opened at its first use.
 * @param shared servers by name for all agents; an agent's own server of the same name takes precedence
 * @param options.unusedAfterMs how long a server that no agent names may stay unused. Default: 15 minutes
 */
export function createMcpServers(shared: McpServerConfigs, options: McpServersOptions): McpServers {
  const { unusedAfterMs = UNUSED_AFTER_MS } = options;
  const known: Known = { shared, options, connections: new Map(), hasListed: new WeakSet() };
  return {
    toolsOf: (agent, source, key) => pinnedToolsOf(known, agent, source, key),
    async pin(agent, signal, withinMs) {
      const sources = mcpSources(agent);
      if (sources.size === 0) return agent;
      const pinned = await Promise.all(
        [...sources].map(([server, ofServer]) =>
          pinServer(known, agent, { server, sources: ofServer }, { signal, withinMs }),
        ),
      );
      return { ...agent, pinnedTools: Object.fromEntries(pinned) };
    },
    leftOut: (agent) => leftOutOf(known, agent),
    closeUnused(agents) {
      // If the folder of agents cannot be read now, close nothing.
      const timer = setInterval(
        () => void closeAllUnused(known, agents, unusedAfterMs).catch(() => undefined),
        unusedAfterMs,
      );
      timer.unref();
      return { [Symbol.dispose]: () => clearInterval(timer) };
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([...known.connections.values()].map((connection) => connection[Symbol.asyncDispose]()));
    },
  };
}

type McpServersOptions = Readonly<{
  environment: Environment;
  log: Log;
  maxListAgeMs?: number;
  unusedAfterMs?: number;
}>;

/** The servers for all agents, and the connections that were opened so far. */
type Known = Readonly<{
  shared: McpServerConfigs;
  options: McpServersOptions;
  connections: Map<string, McpConnection>;
  hasListed: WeakSet<McpConnection>;
}>;

function configOf({ shared }: Known, agent: McpAgent, server: string, key: string): McpServerConfig {
  const config = agent.mcpServers[server] ?? shared[server];
  if (config !== undefined) return config;
  const names = [...new Set([...Object.keys(agent.mcpServers), ...Object.keys(shared)])].join(', ') || 'none';
  throw new BatonError('config_invalid', `${key}: there is no MCP server named ${server}; known: ${names}`);
}

function connectionTo({ connections, options }: Known, server: string, config: McpServerConfig): McpConnection {
  const key = keyOf(server, config);
  const cached = connections.get(key);
  if (cached !== undefined) return cached;
  const { environment, log, maxListAgeMs } = options;
  const connection = createLazyConnection({ server, config, environment, log, maxListAgeMs });
  connections.set(key, connection);
  return connection;
}

function pinnedToolsOf(known: Known, agent: McpAgent, source: McpSource, key: string): readonly Tool[] {
  const config = configOf(known, agent, source.mcp, key);
  checkMcpClient(key);
  checkVariables(config, known.options.environment, source.mcp);
  const pinned = agent.pinnedTools?.[source.mcp];
  if (pinned === undefined) {
    throw new BatonError('config_invalid', `${key}: the session has no definitions of the tools of ${source.mcp}`);
  }
  const connection = connectionTo(known, source.mcp, config);
  const toolOptions = { server: source.mcp, trust: config.trust, connection, pinnedHash: pinned.hash };
  const included = pinned.tools.filter((tool) => isIncluded(source, tool));
  const tools = included.map((tool) => createMcpTool(toolOptions, tool));
  return source.deferred === true ? tools.map((tool) => ({ ...tool, deferred: true })) : tools;
}

/** `withinMs`: time for the server's answer; absent: as long as a request takes. */
type Patience = Readonly<{ signal: AbortSignal; withinMs: number | undefined }>;

async function pinServer(
  known: Known,
  agent: Agent,
  { server, sources }: Readonly<{ server: string; sources: readonly McpSource[] }>,
  patience: Patience,
) {
  const { log } = known.options;
  const offered = await listTools(known, server, configOf(known, agent, server, 'tools'), patience);
  const missing = sources.flatMap(({ include = [] }) => include).filter((name) => !offered.has(name));
  if (missing.length > 0) log('warn', { event: 'mcp_tools_missing', server, agent: agent.name, tools: missing });
  const tools = [...offered.values()].filter((tool) => sources.some((source) => isIncluded(source, tool)));
  checkBounds(agent, server, tools);
  return [server, { hash: hashOfTools(tools), tools }] as const;
}

async function listTools(known: Known, server: string, config: McpServerConfig, { signal, withinMs }: Patience) {
  const connection = connectionTo(known, server, config);
  const isStarting = config.url === undefined && !known.hasListed.has(connection);
  const late = withinMs === undefined || isStarting ? null : AbortSignal.timeout(withinMs);
  try {
    const offered = await connection.tools(true, late === null ? signal : AbortSignal.any([signal, late]));
    known.hasListed.add(connection);
    return offered;
  } catch (cause) {
    if (late?.aborted !== true || signal.aborted) throw cause;
    const message = `The MCP server ${server} did not list its tools within ${withinMs} ms.`;
    throw new BatonError('tools_unavailable', message, { cause });
  }
}

async function leftOutOf({ shared, connections }: Known, agent: McpAgent) {
  const perServer = [...mcpSources(agent)].map(async ([server, sources]) => {
    const config = agent.mcpServers[server] ?? shared[server];
    const connection = config === undefined ? undefined : connections.get(keyOf(server, config));
    const tools = (await connection?.leftOut()) ?? [];
    return tools
      .filter(({ tool }) => sources.some((source) => isIncluded(source, { name: tool })))
      .map(({ tool, reason }) => ({ server, tool, reason }));
  });
  return (await Promise.all(perServer)).flat();
}

async function closeAllUnused(known: Known, agents: AgentCatalogue, forMs: number): Promise<void> {
  const current = await agents.current();
  const named = new Set(
    current.names().flatMap((name) => {
      const agent = current.get(name);
      return [...mcpSources(agent).keys()].map((server) => keyOf(server, configOf(known, agent, server, 'tools')));
    }),
  );
  const others = [...known.connections].flatMap(([key, connection]) => (named.has(key) ? [] : [connection]));
  await Promise.all(others.map((connection) => connection.closeUnused(forMs)));
}

const keyOf = (server: string, config: McpServerConfig): string => JSON.stringify([server, config]);

function mcpSources(agent: Pick<Agent, 'tools'>): Map<string, McpSource[]> {
  const sources = agent.tools.flatMap((source): McpSource[] => {
    if (typeof source === 'string' || source.mcp === undefined) return [];
    const { mcp, include, exclude } = source;
    return [{ mcp, ...(include && { include }), ...(exclude && { exclude }) }];
  });
  return Map.groupBy(sources, ({ mcp }) => mcp);
}

/** No pinned tools for any server, as at the start. */
export function nothingPinned(agent: Pick<Agent, 'tools'>): PinnedTools {
  return Object.fromEntries([...mcpSources(agent).keys()].map((server) => [server, { hash: '', tools: [] }]));
}

/** Every session keeps the definitions, and every model request carries those that are not deferred. */
function checkBounds(agent: Agent, server: string, tools: readonly PinnedTool[]): void {
  const bytes = definitionBytes(tools);
  if (tools.length <= MAX_SERVER_TOOLS && bytes <= MAX_SERVER_DEFINITION_BYTES) return;
  throw new BatonError(
    'tools_unavailable',
    `The MCP server ${server} offers the agent ${agent.name} too much: tools: ${tools.length}, bytes of their definitions: ` +
      `${bytes}. A session takes at most ${MAX_SERVER_TOOLS} tools and ${MAX_SERVER_DEFINITION_BYTES} bytes of one server. ` +
      'Name those that the agent needs under "include".',
  );
}

/** Finds missing variables at the start instead of at the first connection. */
function checkVariables({ env = [], headersFromEnv = {} }: McpServerConfig, environment: Environment, server: string) {
  for (const [index, name] of env.entries()) requireVariable(environment, name, `mcpServers.${server}.env.${index}`);
  headersFrom(environment, headersFromEnv, `mcpServers.${server}.headersFromEnv`);
}
