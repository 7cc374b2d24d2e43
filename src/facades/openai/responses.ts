import type { Context } from 'hono';
import {
  cancelResponseRoute,
  compactResponseRoute,
  countInputTokensRoute,
  createResponseRoute,
  deleteResponseRoute,
  listInputItemsRoute,
  readResponseRoute,
} from '../../api/openai-responses.ts';
import { cancelRun } from '../../commands/cancel.ts';
import { removeQueued } from '../../commands/change-queue.ts';
import { deleteSession } from '../../commands/change-session.ts';
import { formatId } from '../../domain/ids.ts';
import { ProblemError } from '../../http/bodies/problem.ts';
import type { HttpDeps } from '../../http/http-deps.ts';
import type { BatonApp, HttpEnv } from '../../http/http-env.ts';
import { findModel } from '../../http/known-agent.ts';
import { untilGone, whyEnded } from '../../http/request-signal.ts';
import { framesResponse } from '../../http/sse.ts';
import { type Compacted, compact } from './compact.ts';
import { toFailedResponse, waitingError } from './completion-bodies.ts';
import { withBegin } from './completion-pieces.ts';
import { type FoundResponse, findContinued, findResponse, placeOf } from './find-response.ts';
import { hasSiblings, readInputItems } from './input-items.ts';
import { countInputTokens } from './input-tokens.ts';
import { toFailed } from './reader-failure.ts';
import { endedBody, errorBody, openBody, type ResponseHead, usageBody } from './response-bodies.ts';
import { createResponseFrames } from './response-frames.ts';
import { createdAt, formatCompactedId, formatCompactionItemId } from './response-ids.ts';
import { newResponsePieces, type ResponsePiece, responsePieces, withCutOff } from './response-pieces.ts';
import { toCompletionRequest } from './response-request.ts';
import { repetitionOf, startCompletion } from './start-completion.ts';

/** OpenAI's responses. An agent is a model, a conversation a session, and a response the answer of a run. */
export function registerResponseRoutes(app: BatonApp, deps: HttpDeps): void {
  app.openapi(createResponseRoute, async (c) => {
    const { model, ...rest } = c.req.valid('json');
    const body = { ...rest, model: await findModel(deps.agents, model) };
    const repetition = repetitionOf(c.req.valid('header'));
    const caller = c.get('caller');
    const isRepeated = repetition.isRetry || repetition.key !== null;
    const { sessionName, items, compaction } = await findContinued(deps, caller, body, isRepeated);
    const signal = untilGone(c);
    const completion = { body: toCompletionRequest(body, items), sessionName, compaction, endsWithClient: false };
    const started = await startCompletion(deps, caller, { ...completion, ...repetition, signal });
    c.get('freeSlot')?.();
    const { sessionId } = started;
    const head = { place: placeOf(started), sessionId, model: body.model, request: body };
    const headers = { 'x-session-id': formatId('session', sessionId), 'x-should-retry': 'false' };
    const pieces = newResponsePieces(deps, started, signal);
    if (body.stream === true) return streamed(c, deps, { head, pieces, headers });
    if (body.background !== true) {
      const { whole, error } = await answerOf(head, pieces);
      return error === null ? c.json(whole, 200, headers) : toFailedResponse(error, headers);
    }
    return c.json(openBody(head, started.accepted?.queued === true ? 'queued' : 'in_progress'), 200, headers);
  });

  registerFoundResponses(app, deps);
}

function registerFoundResponses(app: BatonApp, deps: HttpDeps): void {
  app.openapi(readResponseRoute, async (c) => {
    const found = await findResponse(deps, c.get('caller'), c.req.valid('param').id);
    const { stream, starting_after: after } = c.req.valid('query');
    if (stream !== 'true') return c.json(await currentOf(deps, found, untilGone(c)), 200);
    const pieces = responsePieces(deps, found, untilGone(c));
    const startingAfter = after === undefined ? -1 : Number(after);
    return streamed(c, deps, { head: headOf(found), pieces, startingAfter });
  });

  app.openapi(cancelResponseRoute, async (c) => {
    const caller = c.get('caller');
    const { id } = c.req.valid('param');
    const found = await findResponse(deps, caller, id);
    await cancelResponse(deps, found);
    const now = found.accepted?.queued === true ? null : await findResponse(deps, caller, id);
    const body = now === null ? cancelledBody(headOf(found)) : await currentOf(deps, now, untilGone(c));
    return c.json(body, 200);
  });

  app.openapi(listInputItemsRoute, async (c) => {
    const found = await findResponse(deps, c.get('caller'), c.req.valid('param').id);
    const { limit = DEFAULT_ITEMS, order = 'desc', after } = c.req.valid('query');
    const { items, hasMore } = await readInputItems(deps, found, { limit, order, after });
    const ends = { first_id: items[0]?.id ?? null, last_id: items.at(-1)?.id ?? null };
    return c.json({ object: 'list' as const, data: [...items], ...ends, has_more: hasMore }, 200);
  });

  app.openapi(deleteResponseRoute, async (c) => {
    const { id } = c.req.valid('param');
    const actor = c.get('caller');
    const found = await findResponse(deps, actor, id);
    if (await hasSiblings(deps, found)) throw new ProblemError('conflict', othersRemain(found));
    await deleteSession(deps, { actor, sessionId: found.sessionId });
    return c.json({ id, object: 'response' as const, deleted: true as const }, 200);
  });

  app.openapi(countInputTokensRoute, async (c) => {
    const { model, ...rest } = c.req.valid('json');
    const body = { ...rest, model: await findModel(deps.agents, model) };
    const tokens = await countInputTokens(deps, c.get('caller'), body, untilGone(c));
    return c.json({ object: 'response.input_tokens' as const, input_tokens: tokens }, 200);
  });

  app.openapi(compactResponseRoute, async (c) => {
    const { model, ...rest } = c.req.valid('json');
    const body = { ...rest, model: await findModel(deps.agents, model) };
    const compacted = await compact(deps, c.get('caller'), body, untilGone(c));
    return c.json(compactedBody(compacted), 200);
  });
}

/** The answer to a compaction. */
const compactedBody = ({ sessionId, content, usage }: Compacted) => ({
  id: formatCompactedId(sessionId),
  object: 'response.compaction' as const,
  created_at: createdAt(sessionId),
  output: [{ id: formatCompactionItemId(sessionId), type: 'compaction' as const, encrypted_content: content }],
  usage: usageBody(usage),
});

const DEFAULT_ITEMS = 20;

const othersRemain = ({ sessionId }: FoundResponse): string => {
  const session = `/v1/sessions/${formatId('session', sessionId)}`;
  return `The session of this response has other messages. Delete all of it with DELETE ${session}, or take the newest messages out with POST ${session}/revert`;
};

const headOf = ({ place, sessionId, model }: FoundResponse): ResponseHead => ({
  ...{ place, sessionId, model, request: null },
});

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
  return { ...openBody(head, 'queued'), status: 'cancelled' as const, error: errorBody(CANCELLED) };
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
