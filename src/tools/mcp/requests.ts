import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { ResultSchema, type Tool, ToolSchema } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import { definitionBytes, type PinnedTool, pinnedToolSchema } from '../../agents/pinned-tools.ts';
import { BatonError } from '../../domain/errors.ts';

/** For a server to start, and for its list of tools. */
export const ANSWER_TIMEOUT_MS = 30_000;
/** Limits of a server's list, which stays in memory for all its agents. A longer list is refused. */
const MAX_LISTED_TOOLS = 2_000;
const MAX_LISTED_BYTES = 2 * 1024 * 1024;
const MAX_TOOL_PAGES = 500;

/** `meta` is sent unchanged. */
export type McpCall = Readonly<{
  tool: string;
  input: Record<string, unknown>;
  meta: Readonly<Record<string, string>>;
  signal: AbortSignal;
}>;

/**
 * Returns the server's answer unparsed: one invalid piece must not lose the others or the outcome.
 * @param timeoutMs limit without an answer or a sign of progress
 * @throws errors of the SDK
 */
export function callTool(client: Client, timeoutMs: number, call: McpCall): Promise<unknown> {
  const { tool, input, meta } = call;
  const params = { name: tool, arguments: input, _meta: { ...meta } };
  return withOwnSignal(call.signal, (signal) =>
    client.request({ method: 'tools/call', params }, ResultSchema, {
      signal,
      timeout: timeoutMs,
      resetTimeoutOnProgress: true,
      // Without a listener the server is not asked for progress.
      onprogress: () => undefined,
    }),
  );
}

/**
 * All callable tools that a server lists, by their names.
 * @throws BatonError `tools_unavailable` for a list that is too long; errors of the SDK
 */
export async function listTools(
  client: Client,
  server: string,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, PinnedTool>> {
  const tools = new Map<string, PinnedTool>();
  if (client.getServerCapabilities()?.tools === undefined) return tools;
  const refuse = (what: string): never => {
    throw new BatonError('tools_unavailable', `The MCP server ${server} lists ${what}: none of them is used.`);
  };
  let bytes = 0;
  let cursor: string | undefined;
  for (let page = 0; page < MAX_TOOL_PAGES; page++) {
    const listed = await listPage(client, cursor, signal);
    if (tools.size + listed.tools.length > MAX_LISTED_TOOLS) refuse(`more than ${MAX_LISTED_TOOLS} tools`);
    for (const offered of listed.tools) {
      const { name, description = name, inputSchema, annotations, execution }: Tool = ToolSchema.parse(offered);
      // Such a tool returns a task that has to be polled, which Baton does not support.
      if (execution?.taskSupport === 'required') continue;
      const { readOnlyHint, idempotentHint } = annotations ?? {};
      const tool = pinnedToolSchema.parse({ name, description, inputSchema, readOnlyHint, idempotentHint });
      bytes += definitionBytes([tool]);
      if (bytes > MAX_LISTED_BYTES) refuse(`tools with more than ${MAX_LISTED_BYTES} bytes of definitions`);
      tools.set(name, tool);
    }
    cursor = listed.nextCursor;
    if (cursor === undefined) return tools;
  }
  return refuse(`its tools in more than ${MAX_TOOL_PAGES} pages`);
}

/** The tools of a page are validated once they are counted: 20 000 of them would hold up the event loop. */
const pageSchema = z.object({ tools: z.array(z.unknown()), nextCursor: z.string().optional() });

async function listPage(client: Client, cursor: string | undefined, stop: AbortSignal) {
  const request = { method: 'tools/list' as const, params: cursor === undefined ? {} : { cursor } };
  const page = await withOwnSignal(stop, (signal) =>
    client.request(request, ResultSchema, { timeout: ANSWER_TIMEOUT_MS, signal }),
  );
  return pageSchema.parse(page);
}

/**
 * Gives a request its own signal for its lifetime: the SDK never removes its listener, and would cancel requests that
 * are long done.
 */
export async function withOwnSignal<T>(signal: AbortSignal, work: (own: AbortSignal) => Promise<T>): Promise<T> {
  const own = new AbortController();
  const onAbort = (): void => own.abort(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  if (signal.aborted) onAbort();
  try {
    return await work(own.signal);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
