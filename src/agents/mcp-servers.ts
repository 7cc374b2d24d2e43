import { z } from 'zod';
import { BatonError } from '../domain/errors.ts';
import { DEFAULT_TOOL_TIMEOUT_MS } from '../domain/tunables.ts';
import { describeProblems, fileProblems } from '../platform/file-problems.ts';
import { readYaml } from '../platform/read-yaml.ts';
import { headersFromEnv, httpUrl, SERVER_NAME, variables } from './tool-sources.ts';

const STDIO_KEYS = ['command', 'args', 'env', 'cwd'];
const HTTP_KEYS = ['url', 'headersFromEnv'];

/** An MCP server over stdio (`command`) or streamable HTTP (`url`). */
const mcpServerSchema = z
  .strictObject({
    command: z.string().min(1).optional(),
    args: z.array(z.string()).optional(),
    /** Variables of the worker's environment that the command gets, besides PATH, HOME and the like. */
    env: variables.optional(),
    /** Default: the working directory of the worker. */
    cwd: z.string().min(1).optional(),
    url: httpUrl.optional(),
    headersFromEnv: headersFromEnv.optional(),
    /** The longest time of a call without an answer or a sign of progress. In all a call has the time of any tool. */
    timeoutMs: z.number().int().positive().max(DEFAULT_TOOL_TIMEOUT_MS).default(120_000),
    /** Trust the server's own `readOnlyHint` and `idempotentHint`. */
    trust: z.boolean().default(false),
  })
  .superRefine((server, ctx) => {
    const { command, url } = server;
    if ((command === undefined) === (url === undefined)) {
      ctx.addIssue({ code: 'custom', message: 'either command (stdio) or url (streamable HTTP)' });
    }
    const foreign = command === undefined ? STDIO_KEYS : HTTP_KEYS;
    for (const key of foreign.slice(1).filter((name) => name in server)) {
      ctx.addIssue({ code: 'custom', path: [key], message: `goes with ${foreign[0]} only` });
    }
  });
export type McpServerConfig = Readonly<z.infer<typeof mcpServerSchema>>;

export const mcpServersSchema = z.record(SERVER_NAME, mcpServerSchema);
export type McpServerConfigs = Readonly<z.infer<typeof mcpServersSchema>>;

/** From the key `mcpServers` of a YAML or JSON file. @throws BatonError `config_invalid` that names server and key */
export function loadMcpServers(file: string | undefined): McpServerConfigs {
  if (file === undefined) return {};
  const schema = z.strictObject({ mcpServers: mcpServersSchema });
  const parsed = schema.safeParse(readYaml(file, `MCP file ${file}`));
  if (parsed.success) return parsed.data.mcpServers;
  const problems = describeProblems(fileProblems(schema, parsed.error));
  throw new BatonError('config_invalid', `MCP file ${file}: ${problems}`, { cause: parsed.error });
}
