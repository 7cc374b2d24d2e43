import { createRoute, z } from '@hono/zod-openapi';
import type { Context } from 'hono';
import { limitBody } from '../../api/body-limit.ts';
import { noQuery, textField } from '../../api/fields.ts';
import { idempotencyHeader } from '../../api/idempotency-key.ts';
import { BODY_REFUSED, CONFLICT, jsonOf, NOT_FOUND, REFUSED, TOO_LARGE } from '../../api/responses.ts';
import { cancelRun } from '../../commands/cancel.ts';
import { removeQueued } from '../../commands/change-queue.ts';
import { formatId } from '../../domain/ids.ts';
import { MAX_CONTENT_BODY_BYTES } from '../../domain/tunables.ts';
import type { HttpDeps } from '../../http/http-deps.ts';
import type { BatonApp, HttpEnv } from '../../http/http-env.ts';
import { refuseUnknownModel } from '../../http/known-agent.ts';
import { untilGone, whyEnded } from '../../http/request-signal.ts';
import { framesResponse } from '../../http/sse.ts';
import { toFailedResponse, waitingError } from './completion-bodies.ts';
import { withBegin } from './completion-pieces.ts';
import { type FoundResponse, findContinued, findResponse, placeOf } from './find-response.ts';
import { toFailed } from './reader-failure.ts';
import { endedBody, openBody, type ResponseHead } from './response-bodies.ts';
import { createResponseFrames } from './response-frames.ts';
import { newResponsePieces, type ResponsePiece, responsePieces, withCutOff } from './response-pieces.ts';
import { responseRequestSchema, toCompletionRequest } from './response-request.ts';
import { repetitionOf, startCompletion } from './start-completion.ts';

const tags = ['OpenAI'];

const responseBody = z.looseObject({
  id: z.string(),
  object: z.literal('response'),
  created_at: z.int(),
  status: z.enum(['queued', 'in_progress', 'completed', 'incomplete', 'failed', 'cancelled']),
  model: z.string(),
  output: z.array(z.looseObject({ id: z.string(), type: z.enum(['message', 'function_call']) })),
  output_text: z.string(),
  error: z.looseObject({ code: z.string(), message: z.string() }).nullable(),
  conversation: z.object({ id: z.string() }),
  usage: z.looseObject({ input_tokens: z.int(), output_tokens: z.int(), total_tokens: z.int() }).nullable(),
});

const ok = (description: string) => ({
  200: {
    description,
    content: { 'application/json': { schema: responseBody }, 'text/event-stream': { schema: z.string() } },
  },
});
const params = z.strictObject({ id: textField(256).min(1) });

const create = createRoute({
  method: 'post',
  path: '/v1/responses',
  middleware: limitBody(MAX_CONTENT_BODY_BYTES),
  operationId: 'createResponse',
  tags,
  summary: 'Create a response, as with OpenAI',
  description:
    '`model` is the name of an agent. With `conversation` (any name, or the id of a session), `previous_response_id` or items of earlier responses the request goes on with that session; without them it goes on with the one of this conversation. Going away cancels nothing.',
  request: {
    query: noQuery,
    headers: idempotencyHeader.extend({ 'x-stainless-retry-count': z.string().max(16).optional() }),
    body: {
      required: true,
      content: {
        'application/json': {
          schema: responseRequestSchema.openapi('ResponseRequest', {
            example: { model: 'workspace', input: 'Which files here mention shipping?' },
          }),
        },
      },
    },
  },
  responses: {
    ...ok('The response, or with `stream` its events. With `background` it has only begun.'),
    ...REFUSED,
    ...BODY_REFUSED,
    ...NOT_FOUND,
    ...CONFLICT,
  },
});

const read = createRoute({
  method: 'get',
  path: '/v1/responses/{id}',
  operationId: 'getResponse',
  tags,
  summary: 'Read a response as it is now, or its events',
  request: {
    params,
    query: z.strictObject({
      stream: z.enum(['true', 'false']).optional(),
      starting_after: z
        .string()
        .regex(/^\d{1,15}$/, 'the number of an event')
        .optional()
        .openapi({ description: 'Only events after this `sequence_number`.' }),
      include_obfuscation: z.enum(['true', 'false']).optional(),
    }),
  },
  responses: { ...ok('The response, or with `stream=true` its events, at any age.'), ...REFUSED, ...NOT_FOUND },
});

const cancel = createRoute({
  method: 'post',
  path: '/v1/responses/{id}/cancel',
  operationId: 'cancelResponse',
  tags,
  summary: 'Cancel a response',
  request: { params, query: noQuery },
  responses: { 200: jsonOf(responseBody, 'The response.'), ...REFUSED, ...TOO_LARGE, ...NOT_FOUND, ...CONFLICT },
});

/** OpenAI's responses. An agent is a model, a conversation a session, and a response the answer of a run. */
export function registerResponseRoutes(app: BatonApp, deps: HttpDeps): void {
  app.openapi(create, async (c) => {
    const body = c.req.valid('json');
    await refuseUnknownModel(deps.agents, body.model);
    const repetition = repetitionOf(c.req.valid('header'));
    const caller = c.get('caller');
    const isRepeated = repetition.isRetry || repetition.key !== null;
    const { sessionName, items } = await findContinued(deps, caller, body, isRepeated);
    const signal = untilGone(c);
    const completion = { body: toCompletionRequest(body, items), sessionName, endsWithClient: false };
    const started = await startCompletion(deps, caller, { ...completion, ...repetition, signal });
    const { sessionId } = started;
    const head = { place: placeOf(started), sessionId, model: body.model };
    const headers = { 'x-session-id': formatId('session', sessionId), 'x-should-retry': 'false' };
    const pieces = newResponsePieces(deps, started, signal);
    if (body.stream === true) return streamed(c, deps, { head, pieces, headers });
    if (body.background !== true) {
      const { whole, error } = await answerOf(head, pieces);
      return error === null ? c.json(whole, 200, headers) : toFailedResponse(error, headers);
    }
    return c.json(openBody(head, started.accepted?.queued === true ? 'queued' : 'in_progress'), 200, headers);
  });

  app.openapi(read, async (c) => {
    const found = await findResponse(deps, c.get('caller'), c.req.valid('param').id);
    const { stream, starting_after: after } = c.req.valid('query');
    if (stream !== 'true') return c.json(await currentOf(deps, found, untilGone(c)), 200);
    const pieces = responsePieces(deps, found, untilGone(c));
    const startingAfter = after === undefined ? -1 : Number(after);
    return streamed(c, deps, { head: headOf(found), pieces, startingAfter });
  });

  app.openapi(cancel, async (c) => {
    const caller = c.get('caller');
    const { id } = c.req.valid('param');
    const found = await findResponse(deps, caller, id);
    await cancelResponse(deps, found);
    const now = found.accepted?.queued === true ? null : await findResponse(deps, caller, id);
    const body = now === null ? cancelledBody(headOf(found)) : await currentOf(deps, now, untilGone(c));
    return c.json(body, 200);
  });
}

const headOf = ({ place, sessionId, model }: FoundResponse): ResponseHead => ({ place, sessionId, model });

/** The response as it is now. */
async function currentOf(deps: HttpDeps, found: FoundResponse, signal: AbortSignal) {
  const head = headOf(found);
  if (found.accepted?.queued === true) return openBody(head, 'queued');
  return wholeOf(head, responsePieces(deps, found, signal, true));
}

/** The body at the end of the pieces: of a response that is not over, with the text so far. */
async function wholeOf(head: ResponseHead, pieces: AsyncIterable<ResponsePiece>) {
  let text = '';
  for await (const piece of pieces) {
    if (piece.kind === 'text') text += piece.text;
    if (piece.kind === 'end') return endedBody(head, piece.completion);
  }
  return openBody(head, 'in_progress', text);
}

/** The whole response, or the error of one whose run waits for people. */
async function answerOf(head: ResponseHead, pieces: AsyncIterable<ResponsePiece>) {
  let message = '';
  async function* untilWait(): AsyncGenerator<ResponsePiece> {
    for await (const piece of pieces) {
      if (piece.kind === 'waiting') message = piece.message;
      if (message !== '') return;
      yield piece;
    }
  }
  const whole = await wholeOf(head, untilWait());
  return { whole, error: message === '' ? null : waitingError(message, `GET /v1/responses/${whole.id}`) };
}

const CANCELLED = { code: 'cancelled', message: 'The message was taken back before a run took it up' };

function cancelledBody(head: ResponseHead) {
  return { ...openBody(head, 'queued'), status: 'cancelled' as const, error: { type: 'server_error', ...CANCELLED } };
}

/** Takes a queued message back, or cancels the run that answers. */
async function cancelResponse(
  deps: HttpDeps,
  { caller: actor, sessionId, runId, accepted }: FoundResponse,
): Promise<void> {
  if (accepted?.queued === true) await removeQueued(deps, { actor, sessionId, messageId: accepted.messageId });
  else await cancelRun(deps, { actor, runId });
}

type Streamed = Readonly<{
  head: ResponseHead;
  pieces: AsyncIterable<ResponsePiece>;
  headers?: Readonly<Record<string, string>>;
  /** The number of the last event that the client has. Default: it has none. */
  startingAfter?: number;
}>;

function streamed(
  c: Context<HttpEnv>,
  deps: HttpDeps,
  { head, pieces, headers = {}, startingAfter = -1 }: Streamed,
): Response {
  const reader = deps.metrics.http.readerJoined();
  const toEnd = withCutOff(pieces, { whyEnded: () => whyEnded(c), toError: (error) => toFailed(c, deps, error) });
  return framesResponse(withBegin(toEnd), createResponseFrames(head, startingAfter), {
    // Aborts only with the client, so that the others are told why the stream ends.
    signal: c.req.raw.signal,
    headers,
    onEnd: () => reader[Symbol.dispose](),
  });
}
