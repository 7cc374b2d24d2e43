import { CLIENT_CAPABILITIES_META_KEY, type Client } from '@modelcontextprotocol/client';
import { z } from 'zod';
import { definitionBytes, type PinnedTool } from '../../agents/pinned-tools.ts';
import { BatonError } from '../../domain/errors.ts';
import type { TakeRoom } from '../../platform/arriving-bytes.ts';
import { failureOf } from './failure.ts';
import { answerSchema } from './incoming.ts';
import { paramHeaders } from './param-headers.ts';
import { type McpTask, readCreatedTask, TASK_EXTENSION, type TaskMethod } from './task.ts';
import { type LeftOutTool, readListedTool } from './tool-list.ts';
import { isEmpty, type Resumption, readUnfinished, type Unfinished } from './unfinished.ts';

/** For a server to start, and for its list of tools. */
export const ANSWER_TIMEOUT_MS = 30_000;
/** Limits of a server's list, which stays in memory for all its agents. A longer list is refused. */
const MAX_LISTED_TOOLS = 2_000;
const MAX_LISTED_BYTES = 2 * 1024 * 1024;
const MAX_TOOL_PAGES = 500;
const MAX_SHOWN_CHARS = 200;
/** How often a server may want one call again with its state. */
const MAX_ROUNDS = 10;

/** How long a server is asked to keep a task: another worker may have to find it again. */
const TASK_KEPT_MS = 3_600_000;

/** `meta` is sent unchanged. */
export type McpCall = Readonly<{
  tool: string;
  /** An object, as the model wrote it. */
  input: unknown;
  inputSchema: unknown;
  meta: Readonly<Record<string, string>>;
  /** The tool has to be called as a task. */
  asTask: boolean;
  signal: AbortSignal;
  /** One of `meta`. */
  callKey: string;
  takeRoom?: TakeRoom | undefined;
  /** Set for a call that goes on after the server asked for something. */
  resumption?: Resumption | undefined;
}>;

/**
 * `task`: the call goes on as this task of the server. `unfinished`: the server asks for something first. With either the
 * answer is not its result.
 */
export type CallAnswer = Readonly<{ answer: unknown; task: McpTask | null; unfinished: Unfinished | null }>;

/**
 * What a call of 2026-07-28 may be answered with. Older servers would ask for it over the open connection, whose call no
 * other worker could go on with.
 */
const CALL_CAPABILITIES = { elicitation: { form: {}, url: {} }, extensions: { [TASK_EXTENSION]: {} } };

/**
 * Returns the server's answer unparsed: one invalid piece must not lose the others or the outcome.
 * @param timeoutMs limit without an answer or a sign of progress
 * @throws errors of the SDK
 */
export async function callTool(client: Client, timeoutMs: number, call: McpCall): Promise<CallAnswer> {
  const { tool, input, inputSchema, meta } = call;
  const isModern = client.getProtocolEra() === 'modern';
  const headers = isModern ? paramHeaders(inputSchema, input) : {};
  // Since 2026-07-28 the server decides what becomes a task.
  const asTask = call.asTask && !isModern;
  const able = isModern ? { [CLIENT_CAPABILITIES_META_KEY]: CALL_CAPABILITIES } : {};
  const ask = async (state: object): Promise<unknown> => {
    const task = asTask ? { task: { ttl: TASK_KEPT_MS } } : {};
    const params = { name: tool, arguments: input, ...task, ...state, _meta: { ...meta, ...able } };
    const { answer } = await withOwnSignal(call.signal, (signal) => request(params, signal));
    return answer;
  };
  const request = (params: Record<string, unknown>, signal: AbortSignal) =>
    client.request({ method: 'tools/call', params }, answerSchema, {
      signal,
      headers,
      timeout: timeoutMs,
      resetTimeoutOnProgress: true,
      // Without a listener the server is not asked for progress.
      onprogress: () => undefined,
    });
  const { inputResponses, requestState } = call.resumption ?? {};
  let answer = await ask({ inputResponses, requestState });
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const next = readUnfinished(answer);
    if (next === null) return { answer, task: isModern || asTask ? readCreatedTask(answer) : null, unfinished: null };
    if (!isEmpty(next.requests)) return { answer, task: null, unfinished: next };
    answer = await ask({ requestState: next.requestState });
  }
  throw new BatonError('invalid_request', `it wants to be asked again more than ${MAX_ROUNDS} times`);
}

/** A server's tools by their names, and those that are not offered. */
export type ToolList = Readonly<{ tools: ReadonlyMap<string, PinnedTool>; leftOut: readonly LeftOutTool[] }>;

/**
 * All tools that a server lists. The list ends where a cursor is repeated, or a page has nothing new.
 * @throws BatonError `tools_unavailable` for a list that is too long or none; errors of the SDK
 */
export async function listTools(client: Client, server: string, signal: AbortSignal): Promise<ToolList> {
  const tools = new Map<string, PinnedTool>();
  const leftOut = new Map<string, LeftOutTool>();
  const list = (): ToolList => ({ tools, leftOut: [...leftOut.values()] });
  if (client.getServerCapabilities()?.tools === undefined) return list();
  const refuse = (what: string): never => {
    throw new BatonError('tools_unavailable', `The MCP server ${server} lists ${what}: none of them is used.`);
  };
  const isTaskTaken = takesTasks(client);
  const seen = new Set<string>();
  let bytes = 0;
  let cursor: Cursor | null = null;
  for (let page = 0; page < MAX_TOOL_PAGES; page++) {
    const listed = readPage(server, await listPage(client, cursor, signal));
    if (tools.size + leftOut.size + listed.tools.length > MAX_LISTED_TOOLS) {
      refuse(`more than ${MAX_LISTED_TOOLS} tools`);
    }
    const before = tools.size + leftOut.size;
    for (const offered of listed.tools) {
      const read = readListedTool(offered, isTaskTaken);
      if (read.kind === 'left-out') leftOut.set(JSON.stringify(read.leftOut), read.leftOut);
      if (read.kind === 'left-out' || tools.has(read.tool.name)) continue;
      bytes += definitionBytes([read.tool]);
      if (bytes > MAX_LISTED_BYTES) refuse(`tools with more than ${MAX_LISTED_BYTES} bytes of definitions`);
      tools.set(read.tool.name, read.tool);
    }
    cursor = listed.cursor;
    const isRepeated = listed.tools.length > 0 && tools.size + leftOut.size === before;
    if (cursor === null || isRepeated || seen.has(JSON.stringify(cursor))) return list();
    seen.add(JSON.stringify(cursor));
  }
  return refuse(`its tools in more than ${MAX_TOOL_PAGES} pages`);
}

/** Since 2026-07-28 the server decides what becomes a task, of clients that take them. */
function takesTasks(client: Client): boolean {
  const support = client.getServerCapabilities()?.tasks?.requests?.tools?.call;
  return client.getProtocolEra() === 'modern' || support !== undefined;
}

/** Opaque, so it goes back as it came. An empty text is the second page of some servers. */
type Cursor = string | number;

/** The tools of a page are read once they are counted: 20 000 of them would hold up the event loop. */
const pageSchema = z.object({ tools: z.array(z.unknown()).nullish(), nextCursor: z.unknown().optional() });

function readPage(server: string, page: unknown): Readonly<{ tools: readonly unknown[]; cursor: Cursor | null }> {
  const { data } = pageSchema.safeParse(page);
  if (data === undefined) {
    const excerpt = (JSON.stringify(page) ?? 'nothing').slice(0, MAX_SHOWN_CHARS);
    throw new BatonError('tools_unavailable', `The MCP server ${server} answers what is no list of tools: ${excerpt}`);
  }
  const { tools, nextCursor } = data;
  const isCursor = typeof nextCursor === 'string' || typeof nextCursor === 'number';
  return { tools: tools ?? [], cursor: isCursor ? nextCursor : null };
}

async function listPage(client: Client, cursor: Cursor | null, stop: AbortSignal): Promise<unknown> {
  const request = { method: 'tools/list', params: cursor === null ? {} : { cursor } };
  const { answer } = await withOwnSignal(stop, (signal) =>
    client.request(request, answerSchema, { timeout: ANSWER_TIMEOUT_MS, signal }),
  );
  return answer;
}

/** The task, and for `tasks/update` what the server has asked for. */
export type TaskParams = { taskId: string; inputResponses?: Resumption['inputResponses'] };

/** A question about a task, or a message to it. @throws errors of the SDK */
export async function askAboutTask(
  client: Client,
  method: TaskMethod,
  params: TaskParams,
  stop: AbortSignal,
): Promise<unknown> {
  const { answer } = await withOwnSignal(stop, (signal) =>
    client.request({ method, params }, answerSchema, { timeout: ANSWER_TIMEOUT_MS, signal }),
  );
  return answer;
}

/**
 * Whether the server still knows the connection, by the first page of its list.
 * @throws errors of the SDK that are no answer
 */
export async function answersList(client: Client, stop: AbortSignal): Promise<boolean> {
  try {
    await listPage(client, null, stop);
    return true;
  } catch (error) {
    if (['answered', 'refused'].includes(failureOf(error, stop))) return false;
    throw error;
  }
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
