import {
  createServer,
  IncomingMessage,
  type RequestListener,
  type Server,
  type ServerOptions,
  ServerResponse,
} from 'node:http';
import type { Socket } from 'node:net';
import { getRequestListener, RequestError } from '@hono/node-server';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import { BatonError } from '../domain/errors.ts';
import { batonCommand } from '../platform/baton-command.ts';
import type { DropReason, Log } from '../platform/log.ts';
import { ProblemError, problemResponse } from './bodies/problem.ts';
import { createDoor } from './door.ts';
import type { BatonApp, ServerBindings } from './http-env.ts';
import { listen } from './listen.ts';
import { isLoopback } from './middleware/host-guard.ts';
import { openAnswer } from './open-answer.ts';
import { sendFrames } from './send-frames.ts';
import { frameSourceOf } from './sse.ts';
import { asksForSocket, takeUpgrades, upgradeOf } from './upgrade.ts';

export type HttpServer = AsyncDisposable & Readonly<{ url: string }>;

export type HttpServerOptions = Readonly<{
  host: string;
  /** 0: any free port. */
  port: number;
  /** The setting that names the port, for the error of a port that is in use. */
  portSetting?: string;
  /** Whether API keys exist. Then every request needs one, and any address may be bound. */
  hasApiKeys?: boolean;
  /** False: requests are refused while there is no API key, so that any address may be bound. Default: true. */
  mayBeOpen?: boolean;
  /** Allows a public address without API keys, where every caller may do everything. */
  allowPublicBind?: boolean;
  /**
   * Host names, besides those of loopback, that a request may be addressed to, in lower case. Absent: none; any on a
   * public address as soon as there is a key.
   */
  allowedHosts?: readonly string[] | undefined;
  /** Most connections at the same time; absent: no limit. */
  maxConnections?: number;
  /** Told of requests and connections that are given up. */
  log?: Log;
}>;

/** Time for a whole request to arrive, body included. Responses have no limit. */
const REQUEST_TIMEOUT_MS = 30_000;
const HEADERS_TIMEOUT_MS = 10_000;
/** How often Node looks for requests that are late. Its own half a minute would be added to both times. */
const LATE_LOOK_INTERVAL_MS = 1_000;
/** Grace time of responses in progress when the server stops. Streams end at once. */
const CLOSE_GRACE_MS = 5_000;
const CLOSE_POLL_MS = 20;

/** Made once: without it each response would make an exception of its own, with a stack. */
const CLOSED = new DOMException('The connection has ended', 'AbortError');

type FetchCallback = Parameters<typeof getRequestListener>[0];

/**
 * Serves the app. Disposing it takes no more connections, ends event streams and waits, lets other responses finish (at
 * most 5 s) and closes every connection.
 * @throws BatonError `config_invalid` when every caller could do everything at an address that is not loopback and
 * nothing allows that, or when the address cannot be bound
 */
export async function startHttpServer(app: BatonApp, options: HttpServerOptions): Promise<HttpServer> {
  const loopback = isLoopback(options.host);
  const mayBeOpen = options.mayBeOpen !== false;
  const openWithoutKeys = mayBeOpen && (loopback || options.allowPublicBind === true);
  if (mayBeOpen && !openWithoutKeys && options.hasApiKeys !== true) {
    throw new BatonError(
      'config_invalid',
      `host ${options.host} is not a loopback address: without API keys the server listens on loopback only. Create one: ${batonCommand()} keys create --name NAME`,
    );
  }
  const shutdown = new AbortController();
  const allowedHosts = options.allowedHosts ?? (loopback ? [] : null);
  const bindings: ServerBindings = { shutdown: shutdown.signal, allowedHosts, onLoopback: loopback, openWithoutKeys };
  const dropped = (reason: DropReason) => () => options.log?.('warn', { event: 'http_dropped', reason });
  const listener = createDoor(listenerOf(app, bindings), dropped('door_full'));
  const server = createPatientServer(listener, { shouldUpgradeCallback: asksForSocket });
  takeUpgrades(server, listener);
  const connections = trackConnections(
    server,
    options.maxConnections ?? Number.POSITIVE_INFINITY,
    dropped('connections_full'),
  );
  const { port, stop } = await listen(server, options);
  const host = options.host.includes(':') ? `[${options.host}]` : options.host;
  return {
    url: `http://${host}:${port}`,
    async [Symbol.asyncDispose]() {
      shutdown.abort();
      await close(stop, connections);
    },
  };
}

/** A server that closes connections whose requests, or their headers, do not arrive in time. */
export function createPatientServer(listener: RequestListener, options: ServerOptions = {}): Server {
  const times = { requestTimeout: REQUEST_TIMEOUT_MS, headersTimeout: HEADERS_TIMEOUT_MS };
  return createServer({ ...options, ...times, connectionsCheckingInterval: LATE_LOOK_INTERVAL_MS }, listener);
}

/** Answers the requests of a Node server, its own or that of a program that mounts the API. */
export function listenerOf(app: BatonApp, bindings: ServerBindings): ReturnType<typeof getRequestListener> {
  const answer: FetchCallback = async (request, { incoming, outgoing }) => {
    const closed = new AbortController();
    outgoing.once('close', () => closed.abort(CLOSED));
    const remoteAddress = incoming.socket.remoteAddress ?? '';
    const node = incoming instanceof IncomingMessage ? { incoming } : {};
    const call = { ...bindings, ...node, remoteAddress, closed: closed.signal };
    if (!(outgoing instanceof ServerResponse)) return app.fetch(request, call);
    const open = openAnswer(incoming.socket, outgoing);
    const upgrade = incoming instanceof IncomingMessage ? upgradeOf(incoming, outgoing) : null;
    if (upgrade !== null) incoming.socket.once('close', () => closed.abort(CLOSED));
    const asked = upgrade === null ? {} : { acceptSocket: upgrade.accept };
    const response = await app.fetch(request, { ...call, ...asked, answer: open });
    if (upgrade?.complete() === true) return RESPONSE_ALREADY_SENT;
    const frames = frameSourceOf(response);
    if (frames === null) return response;
    sendFrames(response, frames, outgoing, open);
    return RESPONSE_ALREADY_SENT;
  };
  return getRequestListener(answer, {
    overrideGlobalObjects: false,
    errorHandler: (error) => problemResponse(toServerProblem(error), '/'),
  });
}

/** An error before the app is called: the request has no valid URL. */
function toServerProblem(error: unknown): ProblemError {
  return error instanceof RequestError
    ? new ProblemError('invalid_request', 'Invalid URL or Host header')
    : new ProblemError('internal', 'An unexpected error');
}

/**
 * Closes connections beyond the limit at once.
 * A WebSocket is idle when it has closed.
 */
function trackConnections(server: Server, maxConnections: number, onFull: () => void): Connections {
  const answering = new Map<Socket, number>();
  server.prependListener('connection', (socket) => {
    if (answering.size >= maxConnections) {
      onFull();
      return void socket.destroy();
    }
    answering.set(socket, 0);
    socket.once('close', () => answering.delete(socket));
  });
  const count = (socket: Socket, by: number): void => {
    const before = answering.get(socket);
    if (before !== undefined) answering.set(socket, before + by);
  };
  server.on('request', ({ socket }, response) => {
    count(socket, 1);
    response.once('close', () => count(socket, -1));
  });
  server.on('upgrade', ({ socket }: IncomingMessage) => count(socket, 1));
  return {
    closeUnused() {
      for (const [socket, responses] of answering) if (responses === 0) socket.destroy();
    },
    closeAll() {
      for (const socket of answering.keys()) socket.destroy();
    },
  };
}

type Connections = Readonly<{
  /** Closes the idle connections, also those without any request so far. */
  closeUnused: () => void;
  closeAll: () => void;
}>;

async function close(stop: () => Promise<void>, { closeUnused, closeAll }: Connections): Promise<void> {
  const stopped = stop();
  closeUnused();
  const poll = setInterval(closeUnused, CLOSE_POLL_MS);
  const force = setTimeout(closeAll, CLOSE_GRACE_MS);
  try {
    await stopped;
  } finally {
    clearInterval(poll);
    clearTimeout(force);
  }
}
