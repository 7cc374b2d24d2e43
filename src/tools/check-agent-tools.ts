import type { Agent } from '../agents/agent.ts';
import type { ToolCatalogue } from './catalogue.ts';
import { nothingPinned } from './mcp/mcp-servers.ts';

/**
 * Finds when an agent is loaded what would otherwise end its first run. MCP servers are not asked: one that is down
 * keeps nothing from starting. @throws BatonError `config_invalid` whose message begins with the key
 */
export async function checkAgentTools(agent: Agent, toolsOf: ToolCatalogue): Promise<void> {
  await toolsOf({ ...agent, pinnedTools: nothingPinned(agent) });
}
