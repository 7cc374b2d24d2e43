import { nameForModel, type PinnedTool } from '../../agents/pinned-tools.ts';
import type { Tool } from '../tool.ts';
import { loadMcpClient } from './load-client.ts';
import type { McpToolOptions } from './run-mcp-tool.ts';

/**
 * A tool of an MCP server as the session has pinned it: the model sees that definition, even if the server changes it.
 * A server's hints about its tools count only if the configuration trusts it.
 */
export function createMcpTool(options: McpToolOptions, pinned: PinnedTool): Tool {
  const { server, trust } = options;
  const readOnly = trust && pinned.readOnlyHint === true;
  const idempotent = readOnly || (trust && pinned.idempotentHint === true);
  return {
    name: nameForModel(server, pinned.name),
    description: pinned.description,
    inputSchema: pinned.inputSchema,
    readOnly,
    idempotent,
    takesWrittenNumbers: true,
    resumes: {
      async stop(work) {
        const { stopNotedTask } = await loadMcpClient();
        await stopNotedTask(options.connection, work);
      },
    },
    async execute(input, context) {
      const { runMcpTool } = await loadMcpClient();
      return runMcpTool(options, pinned, { input, context, mayRepeat: idempotent });
    },
  };
}
