import type { AgentCatalogue } from '../agents/agent.ts';
import { BatonError } from '../domain/errors.ts';
import type { ToolCatalogue } from './catalogue.ts';
import { nothingPinned } from './mcp/mcp-servers.ts';

/**
 * Finds at the start what would otherwise end the first run. MCP servers are not asked: one that is down keeps nothing
 * from starting. @throws BatonError `config_invalid`: agent and key
 */
export async function checkAgentTools(agents: AgentCatalogue, toolsOf: ToolCatalogue): Promise<void> {
  for (const name of agents.names()) {
    try {
      const agent = agents.get(name);
      await toolsOf({ ...agent, pinnedTools: nothingPinned(agent) });
    } catch (error) {
      if (!(error instanceof BatonError)) throw error;
      throw new BatonError(error.code, `agent ${name}: ${error.message}`, { cause: error });
    }
  }
}
