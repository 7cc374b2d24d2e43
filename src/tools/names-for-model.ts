import type { Agent } from '../agents/agent.ts';
import { nameForModel, namePrefix } from '../agents/pinned-tools.ts';
import type { ToolCatalogue } from './catalogue.ts';
import { nothingPinned } from './mcp/mcp-servers.ts';

/**
 * The tools of an agent by the names that its model calls them by. What an MCP server offers is only known when a
 * session begins: where the agent names no tools of it, `SERVER__*` stands for all of them.
 * @throws BatonError `config_invalid` for a tool that is not to be had
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
