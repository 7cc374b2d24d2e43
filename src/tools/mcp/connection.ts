import { setTimeout as pause } from 'node:timers/promises';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import {
  type CallToolResult,
  CallToolResultSchema,
  ListToolsResultSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import type { McpServerConfig } from '../../agents/mcp-servers.ts';
import { hashOfTools, type PinnedTool, pinnedToolSchema } from '../../agents/pinned-tools.ts';
import { BatonError } from '../../domain/errors.ts';
import { type Log, toSafeError } from '../../runtime/log.ts';
import { type Environment, headersFrom } from '../environment.ts';
import { reducedEnvironment } from '../reduced-environment.ts';
import { createHttpTransport, type HttpTransport } from './http-transport.ts';
import { createStdioTransport } from './stdio-transport.ts';

/** For starting a server and its first answers. */
const CONNECT_TIMEOUT_MS = 30_000;
const MAX_TOOL_PAGES = 50;
/** The largest message of a server. */
const MAX_MESSAGE_BYTES = 16 * 1024 * 1024;
/** The pause before another start: of a server that does not start, or has ended soon after. */
const RESTART_BASE_MS = 250;
const RESTART_CAP_MS = 10_000;
/** A server that has lived for this long was well. */
const SETTLED_AFTER_MS = 10_000;
const CLOSE_TIMEOUT_MS = 1_000;

/** One call of a tool. `meta` goes along as it is. */
type McpCall = Readonly<{
  tool: string;
  input: Record<string, unknown>;
  meta: Readonly<Record<string, string>>;
  signal: AbortSignal;
}>;

/** A connection that stands, as far as is known. */
type McpLink = Readonly<{
  /** @throws what the SDK throws */
  call: (call: McpCall) => Promise<CallToolResult>;
  /** Lets go of it: the next use makes another one. */
  drop: () => Promise<void>;
}>;

/** The one connection of this process to a server, made when it is first needed. */
export type McpConnection = AsyncDisposable &
  Readonly<{
    /** Waits for the pause after a failure, and connects. @throws BatonError `tools_unavailable` */
    open: (signal: AbortSignal) => Promise<McpLink>;
    /**
     * The tools that the server offers now. `fresh`: it is asked again.
     * @throws BatonError `tools_unavailable`
     */
    tools: (fresh: boolean, signal: AbortSignal) => Promise<ReadonlyMap<string, PinnedTool>>;
  }>;

type Live = McpLink & { client: Client; tools: ReadonlyMap<string, PinnedTool>; isStale: boolean };

export type ConnectionOptions = Readonly<{
  server: string;
  config: McpServerConfig;
  environment: Environment;
  log: Log;
}>;

export function createMcpConnection(options: ConnectionOptions): McpConnection {
  const { server, config, log } = options;
  const closing = new AbortController();
  let live: Promise<Live> | null = null;
  let failures = 0;
  let retryAtMs = 0;

  const onFailure = (error: unknown): void => {
    failures += 1;
    const retryInMs = Math.min(RESTART_CAP_MS, RESTART_BASE_MS * 2 ** (failures - 1));
    retryAtMs = performance.now() + retryInMs;
    log('warn', { event: 'mcp_server_failed', server, retryInMs, error: toSafeError(error) });
  };
  const connect = async (): Promise<Live> => {
    const waitMs = retryAtMs - performance.now();
    if (waitMs > 0) await pause(waitMs, undefined, { signal: closing.signal });
    const { transport, terminate } = openTransport(options);
    const client = new Client({ name: 'baton', version: '1' });
    const startedAtMs = performance.now();
    const lastError: { error: unknown } = { error: new BatonError('transport', 'the connection was closed') };
    try {
      await client.connect(transport, { timeout: CONNECT_TIMEOUT_MS, signal: closing.signal });
      const tools = await listTools(client, closing.signal);
      const made: Live = {
        client,
        tools,
        isStale: false,
        call: (call) => callTool(client, config.timeoutMs, call),
        async drop() {
          // Not a failure of the server: the next connection need not wait.
          client.onclose = () => undefined;
          if (live === standing) live = null;
          await closeClient(client, terminate);
        },
      };
      const standing = live;
      client.setNotificationHandler(ToolListChangedNotificationSchema, () => {
        made.isStale = true;
      });
      client.onclose = () => {
        if (live === standing) live = null;
        if (closing.signal.aborted) return;
        if (performance.now() - startedAtMs >= SETTLED_AFTER_MS) failures = 0;
        onFailure(lastError.error);
      };
      client.onerror = (error) => {
        lastError.error = error;
        // The SDK has given up a stream that may carry the answer to a call: nobody waits for that any longer.
        if (error.message.startsWith('Maximum reconnection attempts')) void client.close();
      };
      failures = 0;
      log('info', { event: 'mcp_server_connected', server, tools: tools.size });
      return made;
    } catch (error) {
      await client.close().catch(() => undefined);
      onFailure(error);
      throw new BatonError('tools_unavailable', `The MCP server ${server} cannot be reached.`, { cause: error });
    }
  };
  const open = async (signal: AbortSignal): Promise<Live> => {
    if (closing.signal.aborted) throw new BatonError('tools_unavailable', `The MCP server ${server} is being closed.`);
    if (live === null) {
      const connecting = connect();
      live = connecting;
      connecting.catch(() => {
        if (live === connecting) live = null;
      });
    }
    return untilAborted(live, signal);
  };
  const refresh = async (made: Live, signal: AbortSignal): Promise<void> => {
    made.isStale = false;
    const tools = await untilAborted(listTools(made.client, closing.signal), signal);
    if (hashOfTools([...tools.values()]) !== hashOfTools([...made.tools.values()])) {
      log('info', { event: 'mcp_tools_changed', server, tools: tools.size });
    }
    made.tools = tools;
  };
  return {
    open,
    async tools(fresh, signal) {
      const made = await open(signal);
      try {
        if (fresh || made.isStale) await refresh(made, signal);
      } catch (cause) {
        if (signal.aborted) throw cause;
        throw new BatonError('tools_unavailable', `The MCP server ${server} does not list its tools.`, { cause });
      }
      return made.tools;
    },
    async [Symbol.asyncDispose]() {
      closing.abort(new BatonError('tools_unavailable', 'the process is ending'));
      await (await live?.catch(() => null))?.drop();
    },
  };
}

async function callTool(client: Client, timeoutMs: number, call: McpCall): Promise<CallToolResult> {
  const { tool, input, meta, signal } = call;
  // Of its own: the SDK never lets go of a signal, and would cancel calls that are long done.
  const cancel = new AbortController();
  const onAbort = (): void => cancel.abort(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  if (signal.aborted) onAbort();
  try {
    const params = { name: tool, arguments: input, _meta: { ...meta } };
    return await client.request({ method: 'tools/call', params }, CallToolResultSchema, {
      signal: cancel.signal,
      timeout: timeoutMs,
      resetTimeoutOnProgress: true,
      // Without a listener the server is not asked for progress.
      onprogress: () => undefined,
    });
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

async function closeClient(client: Client, terminate: () => Promise<void>): Promise<void> {
  const told = terminate().catch(() => undefined);
  await Promise.race([told, pause(CLOSE_TIMEOUT_MS, undefined, { ref: false })]);
  await client.close();
}

/** How the server is reached, and what it is told at the end. */
function openTransport({ server, config, environment, log }: ConnectionOptions): HttpTransport {
  if (config.url !== undefined) {
    const headers = headersFrom(environment, config.headersFromEnv ?? {}, `mcpServers.${server}.headersFromEnv`);
    return createHttpTransport(new URL(config.url), headers, MAX_MESSAGE_BYTES);
  }
  const { command = '', args = [], env = [], cwd } = config;
  const onLine = (line: string): void => log('debug', { event: 'mcp_server_output', server, line });
  const given = { command, args, cwd, environment: reducedEnvironment(environment, env), onLine };
  return { transport: createStdioTransport(given, MAX_MESSAGE_BYTES), terminate: async () => undefined };
}

/** All tools that a server lists and that can simply be called. */
async function listTools(client: Client, signal: AbortSignal): Promise<ReadonlyMap<string, PinnedTool>> {
  const tools = new Map<string, PinnedTool>();
  if (client.getServerCapabilities()?.tools === undefined) return tools;
  let cursor: string | undefined;
  for (let page = 0; page < MAX_TOOL_PAGES; page++) {
    const params = cursor === undefined ? {} : { cursor };
    const request = { method: 'tools/list' as const, params };
    const listed = await client.request(request, ListToolsResultSchema, { timeout: CONNECT_TIMEOUT_MS, signal });
    for (const { name, description = name, inputSchema, annotations, execution } of listed.tools) {
      // Answers to such a tool have to be asked for, which we do not.
      if (execution?.taskSupport === 'required') continue;
      const { readOnlyHint, idempotentHint } = annotations ?? {};
      tools.set(name, pinnedToolSchema.parse({ name, description, inputSchema, readOnlyHint, idempotentHint }));
    }
    cursor = listed.nextCursor;
    if (cursor === undefined) break;
  }
  return tools;
}

/** The promise's outcome, unless the signal comes first: what others wait for as well goes on. */
async function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const onAbort = (): void => reject(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
