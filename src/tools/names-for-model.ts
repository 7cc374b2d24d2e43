import type { Agent } from '../agents/agent.ts';
import { nameForModel, namePrefix } from '../agents/pinned-tools.ts';
import type { ToolCatalogue } from './catalogue.ts';
import { nothingPinned } from './mcp/mcp-servers.ts';

/**
 * The names of an agent's tools as its model calls them. An MCP server's tools are only known when a session begins:
 * `SERVER__*` stands for all of them, unless the agent names some.
 * @throws BatonError `config_invalid` for an unavailable tool
 */
export async function toolNamesForModel(toolsOf: ToolCatalogue, agent: Agent): Promise<string[]> {
  const tools = await toolsOf({ ...agent, pinnedTools: nothingPinned(agent) });
  const ofServers = agent.tools.flatMap((source) => {
    if (typeof source === 'string' || source.mcp === undefined) return [];
    const { mcp, include } = source;
    return include === undefined ? [`${namePrefix(mcp)}*`] : include.map((name) => nameForModel(mcp, name));
  });
  return [...new Set([...tools.map(({ name }) => name), ...ofServers])];
}
