import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { BackgroundRecord } from './background.ts';
import { controlPath, serveControl } from './control.ts';
import { sendJson } from './delivery.ts';
import { serveModelRequest } from './exchange.ts';
import { errorBody, type Fault } from './fault.ts';
import type { Gate } from './gates.ts';
import type { RawBodies } from './journal.ts';
import type { ProfileName } from './profiles.ts';
import type { Script } from './reply.ts';
import type { RequestRecord } from './request.ts';
import { serveBackground } from './serve-background.ts';
import { createState, type SimulatorState } from './state.ts';
import type { SummaryAnswer } from './summarizer.ts';
import type { ModelWindow, TokenFactor } from './window.ts';

export type SimulatorOptions = Readonly<{
  /** 0 (default): any free port. */
  port?: number | undefined;
  /** Default 127.0.0.1. */
  host?: string | undefined;
  /** Multiplies every counted token, so that the service's estimate cannot match exactly; may drift. Default 1. */
  tokenFactor?: TokenFactor | undefined;
  /** In tokens, for every model without its own window. Default: no limit. */
  contextWindow?: number | undefined;
  /** Size of a streamed piece, in UTF-16 units. Default 64. */
  chunkChars?: number | undefined;
  /** Pause before each streamed piece, in milliseconds. Default 0. */
  chunkDelayMs?: number | undefined;
  /** Whether invalid requests are refused (default) or only noted in the record. */
  strict?: boolean | undefined;
  /** Which request bodies the log keeps. Default `small`: up to 1 MB each, 64 MB together. */
  rawBodies?: RawBodies | undefined;
}>;

/** A simulated provider. The base URL for OpenAI and Anthropic is `url + '/v1'`; any key is accepted. */
export type Simulator = Readonly<{
  url: string;
  /** The newest 10 000 requests, oldest first. The same array over the simulator's life. */
  requests: readonly RequestRecord[];
  /** Sets a model's script; `*` is for every model without one. A model without a script answers 404. */
  script: (model: string, script: Script) => void;
  /**
   * Removes scripts, faults, windows, log, responses in the background, prompt cache and read items; releases and
   * removes all gates.
   */
  clear: () => void;
  /** Queues faults for a model (or `*`); each request takes one. */
  fault: (model: string, faults: Fault | readonly Fault[]) => void;
  /** Sets the limits of a model; a number is its context window in tokens, undefined removes them. */
  setWindow: (model: string, window: number | ModelWindow | undefined) => void;
  /** Gives a model, or with `*` all of them, the ways of an endpoint; undefined: those of the protocol. */
  setProfile: (model: string, name: ProfileName | undefined) => void;
  /**
   * Queues the answers to the next summary requests; later ones get `afterwards` (default `ok`). Summary requests never
   * reach a script and take no fault.
   */
  summaries: (answers: readonly SummaryAnswer[], afterwards?: SummaryAnswer) => void;
  gate: (name: string) => Gate;
  /** Responses in the background, oldest first. */
  backgrounds: () => readonly BackgroundRecord[];
  /** Makes them so much older: after five minutes their streams are refused, after 30 days they are gone. */
  age: (ms: number) => void;
  /** Resolves with the first record, past or future, that matches. Checked when a request arrives and when it ends. */
  waitForRequest: (predicate: (record: RequestRecord) => boolean) => Promise<RequestRecord>;
  /** Cuts every connection and frees the port. */
  [Symbol.asyncDispose]: () => Promise<void>;
}>;

/**
 * Starts a simulated provider that speaks OpenAI's Responses and chat-completions and Anthropic's Messages protocols.
 * Rejects with the system's error if the port is taken.
 */
export async function startSimulator(options: SimulatorOptions = {}): Promise<Simulator> {
  const state = createState({
    tokenFactor: options.tokenFactor ?? 1,
    contextWindow: options.contextWindow,
    chunkChars: options.chunkChars ?? 64,
    chunkDelayMs: options.chunkDelayMs ?? 0,
    strict: options.strict ?? true,
    rawBodies: options.rawBodies ?? 'small',
  });
  const stopped = new AbortController();
  const server = createServer((request, response) => {
    void route(state, request, response, stopped.signal);
  });
  // A client may reuse a connection after any pause; closing it first would look like a provider fault.
  server.keepAliveTimeout = 0;
  server.requestTimeout = 0;
  const host = options.host ?? '127.0.0.1';
  server.listen(options.port ?? 0, host);
  await once(server, 'listening');
  return {
    url: `http://${host}:${portOf(server)}`,
    requests: state.journal.records,
    script: state.script,
    clear: state.clear,
    fault: state.fault,
    setWindow: state.setWindow,
    setProfile: state.setProfile,
    summaries: state.summaries,
    gate: state.gates.gate,
    backgrounds: state.backgrounds.records,
    age: state.backgrounds.age,
    waitForRequest: state.journal.waitFor,
    [Symbol.asyncDispose]: async () => {
      stopped.abort(new Error('The simulator was stopped.'));
      state.journal.dispose();
      if (!server.listening) return;
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

async function route(
  state: SimulatorState,
  request: IncomingMessage,
  response: ServerResponse,
  stopped: AbortSignal,
): Promise<void> {
  const { pathname } = new URL(request.url ?? '/', 'http://simulator');
  if (request.method === 'POST' && pathname === '/v1/responses') {
    return serveModelRequest(state, 'responses', request, response, stopped);
  }
  if (pathname.startsWith('/v1/responses/')) return serveBackground(state, request, response, stopped);
  if (request.method === 'POST' && pathname === '/v1/chat/completions') {
    return serveModelRequest(state, 'chat', request, response, stopped);
  }
  if (request.method === 'POST' && pathname === '/v1/messages') {
    return serveModelRequest(state, 'messages', request, response, stopped);
  }
  if (pathname.startsWith(controlPath)) return serveControl(state, request, response);
  const message = `Invalid URL (${request.method} ${pathname})`;
  sendJson(response, undefined, 404, errorBody(message, 'invalid_request_error'));
}

function portOf(server: Server): number {
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('The simulator listens on no TCP port.');
  return address.port;
}
