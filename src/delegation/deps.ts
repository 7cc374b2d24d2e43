import type { AgentCatalogue } from '../agents/agent.ts';
import type { CommandPorts } from '../commands/ports.ts';
import type { ModelCheck } from '../model/configured-models.ts';
import type { FairLanes } from '../platform/fair-lanes.ts';
import type { McpServers } from '../tools/mcp/mcp-servers.ts';

/** The lanes in which children of several tenants wait for MCP servers, and those in which they use the database. */
export type ChildLanes = Readonly<{ pins: FairLanes; work: FairLanes }>;

export type DelegationDeps = CommandPorts &
  Readonly<{
    agents: AgentCatalogue;
    modelCheck: ModelCheck;
    pinTools: McpServers['pin'];
    /** Time for an MCP server to list its tools to a child. */
    pinWithinMs: number;
  }>;
