import type { Agent } from '../agents/agent.ts';
import { hashOfTools, nameForModel, namePrefix, type PinnedTool, type PinnedTools } from '../agents/pinned-tools.ts';
import { nothingPinned } from '../tools/mcp/mcp-servers.ts';
import type { CaseTool } from './case-file.ts';

/**
 * The agent with the tools of its MCP servers as a case has them, so that no server is asked.
 * @param offered all tools that the model was offered
 */
export function pinAsRecorded(agent: Agent, offered: readonly CaseTool[]): Agent {
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
    name: named.find((known) => nameForModel(server, known) === name) ?? name.slice(prefix.length),
    description,
    inputSchema: { ...(typeof inputSchema === 'object' && !Array.isArray(inputSchema) && inputSchema), type: 'object' },
  }));
}
