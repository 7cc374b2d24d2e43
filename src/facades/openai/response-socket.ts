import type { Context } from 'hono';
import { z } from 'zod';
import { openResponsesRoute } from '../../api/openai-responses.ts';
import { bodyBudget } from '../../domain/body-budget.ts';
import { ProblemError } from '../../http/bodies/problem.ts';
import type { HttpDeps } from '../../http/http-deps.ts';
import { type BatonApp, type HttpEnv, tenantOf } from '../../http/http-env.ts';
import { createIntake } from '../../http/intake.ts';
import { refuseOtherPages } from '../../http/middleware/same-origin.ts';
import { whyEnded } from '../../http/request-signal.ts';
import { frameSourceOf } from '../../http/sse.ts';
import { type Connection, serveSocket } from '../../http/web-socket.ts';
import {
  errorFrame,
  eventsIn,
  readRequest,
  type SocketError,
  type SocketEvent,
  type SocketRequest,
} from './socket-frames.ts';

/** Headers of a handshake that mean nothing to the requests that follow. */
const OF_HANDSHAKE = /^(?:connection|upgrade|host|content-.*|transfer-encoding|idempotency-key|sec-websocket-.*)$/;

/**
 * OpenAI's responses over a WebSocket: each message is the request `POST /v1/responses` with the headers of the
 * handshake, answered by the app itself. So keys, scopes, rates and bounds hold for it as for any other.
 */
export function registerResponseSocket(app: BatonApp, deps: HttpDeps): void {
  const intake = deps.intake ?? createIntake(bodyBudget(0));
  app.openapi(openResponsesRoute, (c): Response => {
    const { acceptSocket } = c.env ?? {};
    if (acceptSocket === undefined) throw new ProblemError('invalid_request', NO_SOCKET);
    refuseOtherPages(c);
    const sender = { kind: 'tenant' as const, id: tenantOf(c) };
    return acceptSocket((open) => {
      const state: State = { app, c, lastId: null };
      serveSocket(open, {
        ...{ intake, sender },
        onMessage: (message, connection) => answer(state, connection, message),
        onBusy: (connection) => connection.send(errorFrame(BUSY)),
        ends: [c.get('denied'), c.env.shutdown],
        whyEnded() {
          const why = whyEnded(c);
          return { isRefused: why?.code === 'unauthenticated', message: why?.message ?? 'gone' };
        },
      });
    });
  });
}

const NO_SOCKET =
  'GET /v1/responses opens a WebSocket, and this request asks for none that this server can give: POST /v1/responses makes a response without one';

const BUSY: SocketError = {
  status: 409,
  code: 'conflict',
  message: 'A response of this connection is not complete yet: wait for its end, or open another connection',
};

type State = {
  readonly app: BatonApp;
  readonly c: Context<HttpEnv>;
  /** The last response of this connection, with which it can go on. Null: none, or going on has failed. */
  lastId: string | null;
};

/** Answers one message. Resolves when its response is told. */
async function answer(state: State, connection: Connection, message: Buffer): Promise<void> {
  const request = readRequest(message);
  if ('status' in request) return connection.send(errorFrame(request));
  const { previousId, isStored } = request;
  if (previousId !== null && !isStored && previousId !== state.lastId) {
    return connection.send(errorFrame(notFound(previousId)));
  }
  const ended = await tell(state, connection, request);
  if (ended !== null) state.lastId = ended;
  else if (previousId === state.lastId) state.lastId = null;
}

/** Of one that is not to be stored only its connection knows, as with OpenAI. */
const notFound = (id: string): SocketError => ({
  ...{ status: 400, code: 'previous_response_not_found', param: 'previous_response_id' },
  message: `Previous response with id ${JSON.stringify(id)} is not the last one of this connection, and with store: false no other is known`,
});

/** @returns the id of the response. Null: it failed, or there is none */
async function tell({ app, c }: State, connection: Connection, { body }: SocketRequest): Promise<string | null> {
  const closed = new AbortController();
  const { acceptSocket: _, ...env } = c.env;
  const headers = new Headers([...c.req.raw.headers].filter(([name]) => !OF_HANDSHAKE.test(name)));
  headers.set('content-type', 'application/json');
  const call = new Request(c.req.url, { method: 'POST', headers, body, signal: connection.gone });
  try {
    const response = await app.fetch(call, {
      ...env,
      onSocket: true,
      closed: closed.signal,
      answer: connection.answer,
    });
    const frames = frameSourceOf(response);
    if (frames === null) {
      connection.send(await refusalOf(response));
      return null;
    }
    let endedId: string | null = null;
    await connection.flow(frames, (frame) => {
      for (const event of eventsIn(frame)) {
        endedId = idAtEnd(event) ?? endedId;
        connection.send(event.type === 'error' ? toErrorFrame(event) : event.data);
      }
    });
    return endedId;
  } finally {
    closed.abort();
  }
}

const refusalSchema = z.object({
  error: z.object({ code: z.string(), message: z.string(), param: z.string().nullable() }),
});

async function refusalOf(response: Response): Promise<string> {
  const { error } = refusalSchema.parse(await response.json());
  return errorFrame({ status: response.status, ...error });
}

const endSchema = z.object({ response: z.object({ id: z.string() }) });

/** The id of a response that ends well with this event. */
function idAtEnd({ type, data }: SocketEvent): string | null {
  if (type !== 'response.completed' && type !== 'response.incomplete') return null;
  return endSchema.parse(JSON.parse(data)).response.id;
}

const cutOffSchema = z.object({ code: z.string(), message: z.string(), sequence_number: z.int() });

/** A stream that ends early has its error in the event itself. */
function toErrorFrame({ data }: SocketEvent): string {
  const { code, message, sequence_number } = cutOffSchema.parse(JSON.parse(data));
  return errorFrame({ status: 503, code, message }, { sequence_number });
}
