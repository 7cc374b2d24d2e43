import { setTimeout as pause } from 'node:timers/promises';
import type { Client } from '@modelcontextprotocol/client';
import type { McpServerConfig } from '../../agents/mcp-servers.ts';
import { hashOfTools, type PinnedTool } from '../../agents/pinned-tools.ts';
import { BatonError } from '../../domain/errors.ts';
import { MAX_RESULT_BYTES } from '../../domain/tunables.ts';
import { backOffMs } from '../../platform/back-off.ts';
import { type Log, toSafeError } from '../../platform/log.ts';
import { type Environment, headersFrom } from '../environment.ts';
import { reducedEnvironment } from '../reduced-environment.ts';
import { failureOf } from './failure.ts';
import { type CallRoom, createHttpTransport, type HttpTransport, type RoomOf } from './http-transport.ts';
import { createLineBudget, type LineBudget } from './line-budget.ts';
import { describeToolCall, inMcpSpan, nameConnectSpan } from './mcp-span.ts';
import { type Connect, createNegotiation } from './negotiate.ts';
import { unavailableBecause } from './refusal.ts';
import {
  ANSWER_TIMEOUT_MS,
  answersList,
  askAboutTask,
  type CallAnswer,
  callTool,
  listTools,
  type McpCall,
  type TaskParams,
  type ToolList,
} from './requests.ts';
import { createStdioTransport } from './stdio-transport.ts';
import type { TaskMethod } from './task.ts';
import type { LeftOutTool } from './tool-list.ts';

/** Backoff before the restart of a server that does not start or ended soon after. */
const RESTART_BASE_MS = 250;
const RESTART_CAP_MS = 10_000;
/** A server that has run this long resets the backoff. */
const SETTLED_AFTER_MS = 10_000;
/** Some servers of the older revisions say nothing to a question that they do not know. */
const STDIO_DISCOVER_TIMEOUT_MS = 10_000;
const CLOSE_TIMEOUT_MS = 1_000;
/**
 * Longest age of a list: a call notices drift within this time, and a server is asked no more often. A refused list
 * stays refused for as long.
 */
const MAX_LIST_AGE_MS = 60_000;
/** Logged lines of a server's stderr, over all its restarts. */
const LOGGED_LINES = { maxLines: 500, perMs: 60_000 };

/** A connection that is open, as far as known. */
export type McpLink = Readonly<{
  /** @throws errors of the SDK */
  call: (call: McpCall) => Promise<CallAnswer>;
  /** Asks about a task. @throws errors of the SDK */
  askAboutTask: (method: TaskMethod, params: TaskParams, signal: AbortSignal) => Promise<unknown>;
  /** Asks the server whether it still knows this connection. */
  isKnown: (signal: AbortSignal) => Promise<boolean>;
  /** Closes the connection; the next use opens another one. */
  drop: () => Promise<void>;
}>;

/** This process's only connection to a server, opened at its first use. */
export type McpConnection = AsyncDisposable &
  Readonly<{
    /** Connects, after a failure with a pause. @throws BatonError `tools_unavailable` */
    open: (signal: AbortSignal) => Promise<McpLink>;
    /** The server's current tools, as far as known. `fresh`: asks it. @throws BatonError `tools_unavailable` */
    tools: (mustRefresh: boolean, signal: AbortSignal) => Promise<ReadonlyMap<string, PinnedTool>>;
    /** What the server listed last, and no agent is offered. */
    leftOut: () => Promise<readonly LeftOutTool[]>;
    /** Closes a connection that was unused for this long; the next use opens another one. */
    closeUnused: (forMs: number) => Promise<void>;
  }>;

type Live = McpLink & {
  client: Client;
  list: ToolList;
  /** The server has announced a change of its list. */
  isStale: boolean;
  /** Time of the last request for the list, by the monotonic clock. */
  askedAtMs: number;
};

export type ConnectionOptions = Readonly<{
  server: string;
  config: McpServerConfig;
  environment: Environment;
  log: Log;
  /** A list stays valid for this long if the server may be unable to announce changes. Default: a minute. */
  maxListAgeMs?: number | undefined;
}>;

/** A connection to one server, opened at its first use. After a failure it reconnects with growing delays. */
export function createMcpConnection(options: ConnectionOptions): McpConnection {
  const { server, config, log, maxListAgeMs = MAX_LIST_AGE_MS } = options;
  const state: State = {
    options,
    maxListAgeMs,
    closing: new AbortController(),
    negotiate: createNegotiation(config.url === undefined ? STDIO_DISCOVER_TIMEOUT_MS : ANSWER_TIMEOUT_MS),
    stderrLines: createLineBudget({
      ...LOGGED_LINES,
      onLine: (line) => log('debug', { event: 'mcp_server_output', server, line }),
      onLeftOut: (lines) => log('debug', { event: 'mcp_server_output_left_out', server, lines }),
    }),
    rooms: new Map(),
    live: null,
    callsUnderWay: 0,
    usedAtMs: performance.now(),
    failures: 0,
    retryAtMs: 0,
    leftOut: [],
    refusal: null,
  };
  return {
    open: (signal) => open(state, signal),
    tools: (mustRefresh, signal) => currentTools(state, mustRefresh, signal),
    leftOut: async () => state.leftOut,
    closeUnused: (forMs) => closeUnused(state, forMs),
    async [Symbol.asyncDispose]() {
      state.closing.abort(new BatonError('tools_unavailable', 'the process is ending'));
      await (await state.live?.catch(() => null))?.drop();
      state.stderrLines[Symbol.dispose]();
    },
  };
}

type State = {
  readonly options: ConnectionOptions;
  readonly maxListAgeMs: number;
  readonly closing: AbortController;
  readonly negotiate: Connect;
  readonly stderrLines: LineBudget;
  /** Of calls under way, by their keys. */
  readonly rooms: Map<string, CallRoom>;
  /** The connection, or the attempt at one. */
  live: Promise<Live> | null;
  callsUnderWay: number;
  usedAtMs: number;
  /** Failures in a row. */
  failures: number;
  retryAtMs: number;
  leftOut: readonly LeftOutTool[];
  /** The list that was refused last, and until when it stays so. */
  refusal: { error: BatonError; untilMs: number } | null;
};

async function open(state: State, signal: AbortSignal): Promise<Live> {
  refuseClosing(state);
  state.usedAtMs = performance.now();
  if (state.live === null) {
    const connecting = connect(state);
    state.live = connecting;
    connecting.catch(() => {
      if (state.live === connecting) state.live = null;
    });
  }
  return untilAborted(state.live, signal);
}

/** @throws BatonError `tools_unavailable` when the process is ending */
function refuseClosing({ closing, options }: State, cause?: unknown): void {
  if (closing.signal.aborted) throw unavailable(`The MCP server ${options.server} is being closed.`, cause);
}

async function connect(state: State): Promise<Live> {
  const { options, closing } = state;
  const { server, log } = options;
  checkRefusal(state);
  const waitMs = state.retryAtMs - performance.now();
  if (waitMs > 0) await pause(waitMs, undefined, { signal: closing.signal });
  const startedAtMs = performance.now();
  const settle = (): void => {
    if (performance.now() - startedAtMs >= SETTLED_AFTER_MS) state.failures = 0;
  };
  let opened: Client | null = null;
  try {
    const { client, terminate, last } = await inMcpSpan(options.config, 'initialize', async (span) => {
      const open = () => openTransport(options, state.stderrLines, (callKey) => state.rooms.get(callKey));
      const connected = await state.negotiate(open, closing.signal);
      nameConnectSpan(span, connected.client);
      return connected;
    });
    opened = client;
    const listed = await list(state, client);
    const standing = state.live;
    const letGo = (): void => {
      settle();
      if (state.live === standing) state.live = null;
    };
    client.onclose = () => {
      if (state.live === standing) state.live = null;
      if (closing.signal.aborted) return;
      settle();
      noteFailure(state, last.error ?? new BatonError('transport', 'the connection was closed'));
    };
    const created = liveOf(state, { client, listed, terminate, letGo });
    state.usedAtMs = performance.now();
    log('info', { event: 'mcp_server_connected', server, tools: listed.tools.size });
    return created;
  } catch (error) {
    await opened?.close().catch(() => undefined);
    refuseClosing(state, error);
    noteFailure(state, error);
    throw unavailable(unavailableBecause(server, error), error);
  }
}

function noteFailure(state: State, error: unknown): void {
  const { server, log } = state.options;
  state.failures += 1;
  const retryInMs = backOffMs(state.failures - 1, RESTART_BASE_MS, RESTART_CAP_MS);
  state.retryAtMs = performance.now() + retryInMs;
  log('warn', { event: 'mcp_server_failed', server, retryInMs, error: toSafeError(error) });
}

/** @param letGo called before the connection is closed on purpose */
function liveOf(
  state: State,
  {
    client,
    listed,
    terminate,
    letGo,
  }: Readonly<{ client: Client; listed: ToolList; terminate: () => Promise<void>; letGo: () => void }>,
): Live {
  const live: Live = {
    client,
    list: listed,
    isStale: false,
    askedAtMs: performance.now(),
    call: (call) => callOn(state, client, call),
    async askAboutTask(method, params, signal) {
      state.usedAtMs = performance.now();
      const ask = () => askAboutTask(client, method, params, signal);
      // A task is looked at again and again, and its state has no span for each look.
      return method === 'tasks/get' ? ask() : inMcpSpan(state.options.config, method, ask);
    },
    isKnown: (signal) => answersList(client, signal),
    async drop() {
      // Not a failure of the server: the next connection need not wait.
      client.onclose = () => undefined;
      letGo();
      await closeClient(client, terminate);
    },
  };
  client.setNotificationHandler('notifications/tools/list_changed', () => {
    live.isStale = true;
  });
  return live;
}

async function callOn(state: State, client: Client, call: McpCall): Promise<CallAnswer> {
  state.callsUnderWay += 1;
  const { callKey, takeRoom } = call;
  if (takeRoom !== undefined) state.rooms.set(callKey, (bytes, most) => takeRoom(bytes, most, call.signal));
  try {
    const { config } = state.options;
    return await describeToolCall(config, client, () => callTool(client, config.timeoutMs, call));
  } finally {
    state.callsUnderWay -= 1;
    state.rooms.delete(callKey);
    state.usedAtMs = performance.now();
  }
}

async function currentTools(
  state: State,
  mustRefresh: boolean,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, PinnedTool>> {
  const { server } = state.options;
  const current = await open(state, signal);
  const mustAsk = mustRefresh || current.isStale;
  if (mustAsk) checkRefusal(state);
  if (!mustAsk && !mayHaveChanged(state, current)) return current.list.tools;
  try {
    await refresh(state, current, signal);
    return current.list.tools;
  } catch (cause) {
    current.isStale ||= mustAsk;
    const failure = failureOf(cause, signal);
    // The server announced no change, so the call continues with the known list.
    if (!mustAsk && failure !== 'refused' && failure !== 'lost') return current.list.tools;
    // A server that has forgotten the connection answers with any error.
    if (failure === 'stopped' || failure === 'unsent') throw unavailable(unavailableBecause(server, cause), cause);
    await current.drop();
  }
  return (await open(state, signal)).list.tools;
}

/**
 * Whether the list may have changed unannounced. A server over HTTP without a session cannot send notifications, one
 * of 2026-07-28 sends them to those who subscribe, and other servers need not.
 */
function mayHaveChanged({ options, maxListAgeMs }: State, { client, askedAtMs }: Live): boolean {
  const mayTell = options.config.url === undefined && client.getProtocolEra() === 'legacy';
  const tells = mayTell && client.getServerCapabilities()?.tools?.listChanged === true;
  return !tells && performance.now() - askedAtMs >= maxListAgeMs;
}

async function refresh(state: State, opened: Live, signal: AbortSignal): Promise<void> {
  const { server, log } = state.options;
  // Set before the answer: later changes need another request, and parallel callers need not ask.
  opened.isStale = false;
  opened.askedAtMs = performance.now();
  const listed = await untilAborted(list(state, opened.client), signal);
  if (hashOfTools([...listed.tools.values()]) !== hashOfTools([...opened.list.tools.values()])) {
    log('info', { event: 'mcp_tools_changed', server, tools: listed.tools.size });
  }
  opened.list = listed;
}

/**
 * Remembers a refused list. A list that is too long takes longest to read, so sessions that begin meanwhile must not
 * read it again.
 */
async function list(state: State, client: Client): Promise<ToolList> {
  try {
    const { server, config } = state.options;
    const listed = await inMcpSpan(config, 'tools/list', () => listTools(client, server, state.closing.signal));
    reportLeftOut(state, listed.leftOut);
    return listed;
  } catch (error) {
    if (error instanceof BatonError && error.code === 'tools_unavailable') {
      state.refusal = { error, untilMs: performance.now() + state.maxListAgeMs };
    }
    throw error;
  }
}

function checkRefusal({ refusal }: State): void {
  if (refusal !== null && performance.now() < refusal.untilMs) throw refusal.error;
}

function reportLeftOut(state: State, now: readonly LeftOutTool[]): void {
  const { server, log } = state.options;
  const before = new Set(state.leftOut.map((tool) => JSON.stringify(tool)));
  state.leftOut = now;
  for (const tool of now) {
    if (!before.has(JSON.stringify(tool))) log('warn', { event: 'mcp_tool_left_out', server, ...tool });
  }
}

async function closeUnused(state: State, forMs: number): Promise<void> {
  const { server, log } = state.options;
  const isUsed = (): boolean => state.callsUnderWay > 0 || performance.now() - state.usedAtMs < forMs;
  const standing = state.live;
  if (standing === null || isUsed()) return;
  const unusedLive = await standing.catch(() => null);
  if (unusedLive === null || state.live !== standing || isUsed()) return;
  log('info', { event: 'mcp_server_unused', server });
  await unusedLive.drop();
}

/** The error of a server that cannot be used. A refused list has its own error already. */
const unavailable = (message: string, cause: unknown): BatonError =>
  cause instanceof BatonError && cause.code === 'tools_unavailable'
    ? cause
    : new BatonError('tools_unavailable', message, { cause });

async function closeClient(client: Client, terminate: () => Promise<void>): Promise<void> {
  const terminated = terminate().catch(() => undefined);
  await Promise.race([terminated, pause(CLOSE_TIMEOUT_MS, undefined, { ref: false })]);
  await client.close();
}

/** The transport to the server, and the request that ends its session. */
function openTransport(
  { server, config, environment }: ConnectionOptions,
  stderrLines: LineBudget,
  roomOf: RoomOf,
): HttpTransport {
  if (config.url !== undefined) {
    const headers = headersFrom(environment, config.headersFromEnv ?? {}, `mcpServers.${server}.headersFromEnv`);
    return createHttpTransport(new URL(config.url), headers, MAX_RESULT_BYTES, roomOf);
  }
  const { command = '', args = [], env = [], cwd } = config;
  const program = { command, args, cwd, environment: reducedEnvironment(environment, env), onLine: stderrLines.push };
  return { transport: createStdioTransport(program, MAX_RESULT_BYTES, roomOf), terminate: async () => undefined };
}

/** Settles with the promise or rejects on abort. The shared work behind the promise continues. */
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
