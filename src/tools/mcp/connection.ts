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
import { createNegotiation } from './negotiate.ts';
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
  const closing = new AbortController();
  const negotiate = createNegotiation(config.url === undefined ? STDIO_DISCOVER_TIMEOUT_MS : ANSWER_TIMEOUT_MS);
  const stderrLines = createLineBudget({
    ...LOGGED_LINES,
    onLine: (line) => log('debug', { event: 'mcp_server_output', server, line }),
    onLeftOut: (lines) => log('debug', { event: 'mcp_server_output_left_out', server, lines }),
  });
  /** Of calls under way, by their keys. */
  const rooms = new Map<string, CallRoom>();
  const roomOf = (callKey: string): CallRoom | undefined => rooms.get(callKey);
  let live: Promise<Live> | null = null;
  let callsUnderWay = 0;
  let usedAtMs = performance.now();
  let failures = 0;
  let retryAtMs = 0;
  let leftOut: readonly LeftOutTool[] = [];
  let refusal: { error: BatonError; untilMs: number } | null = null;

  const onFailure = (error: unknown): void => {
    failures += 1;
    const retryInMs = backOffMs(failures - 1, RESTART_BASE_MS, RESTART_CAP_MS);
    retryAtMs = performance.now() + retryInMs;
    log('warn', { event: 'mcp_server_failed', server, retryInMs, error: toSafeError(error) });
  };
  /**
   * Remembers a refused list. A list that is too long takes longest to read, so sessions that begin meanwhile must not
   * read it again.
   */
  const list = async (client: Client): Promise<ToolList> => {
    try {
      const listed = await listTools(client, server, closing.signal);
      reportLeftOut(listed.leftOut);
      return listed;
    } catch (error) {
      if (error instanceof BatonError && error.code === 'tools_unavailable') {
        refusal = { error, untilMs: performance.now() + maxListAgeMs };
      }
      throw error;
    }
  };
  const reportLeftOut = (now: readonly LeftOutTool[]): void => {
    const before = new Set(leftOut.map((tool) => JSON.stringify(tool)));
    leftOut = now;
    for (const tool of now) {
      if (!before.has(JSON.stringify(tool))) log('warn', { event: 'mcp_tool_left_out', server, ...tool });
    }
  };
  const checkRefusal = (): void => {
    if (refusal !== null && performance.now() < refusal.untilMs) throw refusal.error;
  };
  const connect = async (): Promise<Live> => {
    checkRefusal();
    const waitMs = retryAtMs - performance.now();
    if (waitMs > 0) await pause(waitMs, undefined, { signal: closing.signal });
    const startedAtMs = performance.now();
    const settle = (): void => {
      if (performance.now() - startedAtMs >= SETTLED_AFTER_MS) failures = 0;
    };
    let opened: Client | null = null;
    try {
      const { client, terminate, last } = await negotiate(
        () => openTransport(options, stderrLines, roomOf),
        closing.signal,
      );
      opened = client;
      const listed = await list(client);
      const created: Live = {
        client,
        list: listed,
        isStale: false,
        askedAtMs: performance.now(),
        async call(call) {
          callsUnderWay += 1;
          const { callKey, takeRoom } = call;
          if (takeRoom !== undefined) rooms.set(callKey, (bytes, most) => takeRoom(bytes, most, call.signal));
          try {
            return await callTool(client, config.timeoutMs, call);
          } finally {
            callsUnderWay -= 1;
            rooms.delete(callKey);
            usedAtMs = performance.now();
          }
        },
        async askAboutTask(method, params, signal) {
          usedAtMs = performance.now();
          return askAboutTask(client, method, params, signal);
        },
        isKnown: (signal) => answersList(client, signal),
        async drop() {
          settle();
          // Not a failure of the server: the next connection need not wait.
          client.onclose = () => undefined;
          if (live === standing) live = null;
          await closeClient(client, terminate);
        },
      };
      const standing = live;
      client.setNotificationHandler('notifications/tools/list_changed', () => {
        created.isStale = true;
      });
      client.onclose = () => {
        if (live === standing) live = null;
        if (closing.signal.aborted) return;
        settle();
        onFailure(last.error ?? new BatonError('transport', 'the connection was closed'));
      };
      usedAtMs = performance.now();
      log('info', { event: 'mcp_server_connected', server, tools: listed.tools.size });
      return created;
    } catch (error) {
      await opened?.close().catch(() => undefined);
      onFailure(error);
      throw unavailable(unavailableBecause(server, error), error);
    }
  };
  const open = async (signal: AbortSignal): Promise<Live> => {
    if (closing.signal.aborted) throw new BatonError('tools_unavailable', `The MCP server ${server} is being closed.`);
    usedAtMs = performance.now();
    if (live === null) {
      const connecting = connect();
      live = connecting;
      connecting.catch(() => {
        if (live === connecting) live = null;
      });
    }
    return untilAborted(live, signal);
  };
  /**
   * Whether the list may have changed unannounced. A server over HTTP without a session cannot send notifications, one
   * of 2026-07-28 sends them to those who subscribe, and other servers need not.
   */
  const mayHaveChanged = ({ client, askedAtMs }: Live): boolean => {
    const mayTell = config.url === undefined && client.getProtocolEra() === 'legacy';
    const tells = mayTell && client.getServerCapabilities()?.tools?.listChanged === true;
    return !tells && performance.now() - askedAtMs >= maxListAgeMs;
  };
  const refresh = async (opened: Live, signal: AbortSignal): Promise<void> => {
    // Set before the answer: later changes need another request, and parallel callers need not ask.
    opened.isStale = false;
    opened.askedAtMs = performance.now();
    const listed = await untilAborted(list(opened.client), signal);
    if (hashOfTools([...listed.tools.values()]) !== hashOfTools([...opened.list.tools.values()])) {
      log('info', { event: 'mcp_tools_changed', server, tools: listed.tools.size });
    }
    opened.list = listed;
  };
  return {
    open,
    async tools(mustRefresh, signal) {
      const current = await open(signal);
      const mustAsk = mustRefresh || current.isStale;
      if (mustAsk) checkRefusal();
      if (!mustAsk && !mayHaveChanged(current)) return current.list.tools;
      try {
        await refresh(current, signal);
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
      return (await open(signal)).list.tools;
    },
    leftOut: async () => leftOut,
    async closeUnused(forMs) {
      const isUsed = (): boolean => callsUnderWay > 0 || performance.now() - usedAtMs < forMs;
      const standing = live;
      if (standing === null || isUsed()) return;
      const unusedLive = await standing.catch(() => null);
      if (unusedLive === null || live !== standing || isUsed()) return;
      log('info', { event: 'mcp_server_unused', server });
      await unusedLive.drop();
    },
    async [Symbol.asyncDispose]() {
      closing.abort(new BatonError('tools_unavailable', 'the process is ending'));
      await (await live?.catch(() => null))?.drop();
      stderrLines[Symbol.dispose]();
    },
  };
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
  return { transport: createStdioTransport(program, MAX_RESULT_BYTES), terminate: async () => undefined };
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
