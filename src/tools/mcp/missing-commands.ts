import { accessSync, constants } from 'node:fs';
import path from 'node:path';
import type { Agent, AgentSet } from '../../agents/agent.ts';
import type { McpServerConfig, McpServerConfigs } from '../../agents/mcp-servers.ts';
import type { Environment } from '../environment.ts';

type Missing = Readonly<{ server: string; command: string }>;

/** The commands of the agents' MCP servers that are missing on this machine, each once. */
export function missingCommands(agents: AgentSet, shared: McpServerConfigs, environment: Environment): Missing[] {
  const missing = new Map<string, Missing>();
  for (const name of agents.names()) {
    for (const [server, config] of serversOf(agents.get(name), shared)) {
      const { command, cwd } = config;
      if (command === undefined || isThere(command, cwd, environment)) continue;
      missing.set(`${server} ${command}`, { server, command });
    }
  }
  return [...missing.values()];
}

function serversOf({ tools, mcpServers }: Agent, shared: McpServerConfigs): [string, McpServerConfig][] {
  return tools.flatMap((source): [string, McpServerConfig][] => {
    const server = typeof source === 'string' ? undefined : source.mcp;
    const config = server === undefined ? undefined : (mcpServers[server] ?? shared[server]);
    return server === undefined || config === undefined ? [] : [[server, config]];
  });
}

/** Looks the command up like the system: by its path if it has one, else in the folders of PATH. */
function isThere(command: string, cwd: string | undefined, { PATH = '' }: Environment): boolean {
  const folder = path.resolve(cwd ?? '.');
  if (/[\\/]/.test(command)) return isExecutable(path.resolve(folder, command));
  return PATH.split(path.delimiter).some((place) => isExecutable(path.resolve(folder, place, command)));
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
