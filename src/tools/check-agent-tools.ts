import type { Agent } from '../agents/agent.ts';
import type { ToolCatalogue } from './catalogue.ts';
import { nothingPinned } from './mcp/mcp-servers.ts';

/**
 * Finds errors when an agent is loaded that would otherwise end its first run. MCP servers are not asked, so an
 * unreachable one does not prevent the start.
 * @throws BatonError `config_invalid` whose message begins with the key
 */
export async function checkAgentTools(agent: Agent, toolsOf: ToolCatalogue): Promise<void> {
  await toolsOf({ ...agent, pinnedTools: nothingPinned(agent) });
}
