import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
import {
  type CallToolResult,
  CallToolResultSchema,
  type ListToolsResult,
  ListToolsResultSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { type PinnedTool, pinnedToolSchema } from '../../agents/pinned-tools.ts';

/** For a server to start, and for its list of tools. */
export const ANSWER_TIMEOUT_MS = 30_000;
const MAX_TOOL_PAGES = 50;

/** One call of a tool. `meta` goes along as it is. */
export type McpCall = Readonly<{
  tool: string;
  input: Record<string, unknown>;
  meta: Readonly<Record<string, string>>;
  signal: AbortSignal;
}>;

/** @param timeoutMs without an answer or a sign of progress @throws what the SDK throws */
export function callTool(client: Client, timeoutMs: number, call: McpCall): Promise<CallToolResult> {
  const { tool, input, meta } = call;
  const params = { name: tool, arguments: input, _meta: { ...meta } };
  return withOwnSignal(call.signal, (signal) =>
    client.request({ method: 'tools/call', params }, CallToolResultSchema, {
      signal,
      timeout: timeoutMs,
      resetTimeoutOnProgress: true,
      // Without a listener the server is not asked for progress.
      onprogress: () => undefined,
    }),
  );
}

/** All tools that a server lists and that can simply be called, by their names. @throws what the SDK throws */
export async function listTools(client: Client, signal: AbortSignal): Promise<ReadonlyMap<string, PinnedTool>> {
  const tools = new Map<string, PinnedTool>();
  if (client.getServerCapabilities()?.tools === undefined) return tools;
  let cursor: string | undefined;
  for (let page = 0; page < MAX_TOOL_PAGES; page++) {
    const listed = await listPage(client, cursor, signal);
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

function listPage(client: Client, cursor: string | undefined, stop: AbortSignal): Promise<ListToolsResult> {
  const request = { method: 'tools/list' as const, params: cursor === undefined ? {} : { cursor } };
  return withOwnSignal(stop, (signal) =>
    client.request(request, ListToolsResultSchema, { timeout: ANSWER_TIMEOUT_MS, signal }),
  );
}

/**
 * Gives a request a signal that lives as long as the request: the SDK never lets go of the one that it is given, and
 * would cancel what is long done.
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
