import { checkInstalled, loadOptional } from '../../platform/optional-packages.ts';
import type { ConnectionOptions, McpConnection } from './connection.ts';

const NEED = { purpose: 'MCP servers', packages: ['@modelcontextprotocol/client'] };

/** The only way to the code that speaks MCP to servers. @throws BatonError `config_invalid` without MCP's SDK */
export const loadMcpClient = () =>
  loadOptional(NEED, async () => {
    const [{ createMcpConnection }, { runMcpTool }, { stopNotedTask }] = await Promise.all([
      import('./connection.ts'),
      import('./run-mcp-tool.ts'),
      import('./follow-task.ts'),
    ]);
    return { createMcpConnection, runMcpTool, stopNotedTask };
  });

/** @throws BatonError `config_invalid` whose message begins with the key */
export const checkMcpClient = (key: string): void => checkInstalled(NEED, key);

/** A connection that is made, as its code is loaded, at its first use. */
export function createLazyConnection(options: ConnectionOptions): McpConnection {
  let created: Promise<McpConnection> | null = null;
  const connection = (): Promise<McpConnection> => {
    created ??= loadMcpClient().then(({ createMcpConnection }) => createMcpConnection(options));
    return created;
  };
  const ifMade = async (): Promise<McpConnection | null> => (await created?.catch(() => null)) ?? null;
  return {
    open: async (signal) => (await connection()).open(signal),
    tools: async (mustRefresh, signal) => (await connection()).tools(mustRefresh, signal),
    leftOut: async () => (await ifMade())?.leftOut() ?? [],
    closeUnused: async (forMs) => (await ifMade())?.closeUnused(forMs),
    [Symbol.asyncDispose]: async () => (await ifMade())?.[Symbol.asyncDispose](),
  };
}
