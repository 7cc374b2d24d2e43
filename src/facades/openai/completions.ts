import type { Context } from 'hono';
import { completeRoute, getModelRoute, listModelsRoute } from '../../api/completions.ts';
import { formatId } from '../../domain/ids.ts';
import { NO_USAGE } from '../../domain/usage.ts';
import type { HttpDeps } from '../../http/http-deps.ts';
import type { BatonApp, HttpEnv } from '../../http/http-env.ts';
import { findModel } from '../../http/known-agent.ts';
import { isGone, untilGone, whyEnded } from '../../http/request-signal.ts';
import { framesResponse } from '../../http/sse.ts';
import { createFrames, headOfAnswer, toCompletionBody, toFailedResponse, waitingError } from './completion-bodies.ts';
import { type CompletionPieces, completionPieces, withBegin } from './completion-pieces.ts';
import type { Completion } from './completion-writer.ts';
import { toFailed } from './reader-failure.ts';
import { repetitionOf, startCompletion } from './start-completion.ts';

const asModel = (id: string) => ({ id, object: 'model' as const, created: 0, owned_by: 'baton' as const });

/** OpenAI's chat completions and models. An agent is a model. */
export function registerCompletionRoutes(app: BatonApp, deps: HttpDeps): void {
  app.openapi(listModelsRoute, async (c) => {
    const agents = await deps.agents.current();
    const ids = agents.names().flatMap((name) => [name, ...(agents.get(name).aliases ?? [])]);
    return c.json({ object: 'list' as const, data: ids.map(asModel) }, 200);
  });

  app.openapi(getModelRoute, async (c) => {
    const { model: name } = c.req.valid('param');
    await findModel(deps.agents, name);
    return c.json(asModel(name), 200);
  });

  app.openapi(completeRoute, async (c) => {
    const { model, ...rest } = c.req.valid('json');
    const body = { ...rest, model: await findModel(deps.agents, model) };
    const header = c.req.valid('header');
    const sessionName = header['x-session-id'] ?? null;
    const repetition = repetitionOf(header);
    const isStream = body.stream === true;
    // The library retries a request for a whole answer. It never asks for the rest of a stream.
    const endsWithClient = isStream && sessionName === null && repetition.key === null;
    const signal = untilGone(c);
    const start = { body, sessionName, ...repetition, endsWithClient, signal };
    const started = await startCompletion(deps, c.get('caller'), start);
    c.get('freeSlot')?.();
    const toError = (error: unknown) => toFailed(c, deps, error);
    const ends = { isGone: () => isGone(c), whyEnded: () => whyEnded(c), toError };
    const answer = completionPieces(deps, started, { signal, endsWithClient, isStream, ...ends });
    const head = headOfAnswer(started, body.model, Date.now());
    const headers = { 'x-session-id': formatId('session', started.sessionId), 'x-should-retry': 'false' };
    if (isStream) {
      const toFrame = createFrames(head, body.stream_options?.include_usage === true);
      return streamed(c, deps, { ...answer, toFrame, headers });
    }
    const completion = await completionOf(answer);
    if (completion.error === null) return c.json(toCompletionBody(head, completion), 200, headers);
    return toFailedResponse(completion.error, headers);
  });
}

const SAME_REQUEST = 'the same request with the same Idempotency-Key';

async function completionOf({ pieces, leave }: CompletionPieces): Promise<Completion> {
  try {
    for await (const piece of pieces) {
      if (piece.kind === 'end') return piece.completion;
      if (piece.kind === 'waiting') return withoutAnswer(waitingError(piece.message, SAME_REQUEST));
    }
  } finally {
    await leave();
  }
  // The client is gone, so this has no reader.
  return withoutAnswer({ code: 'cancelled', message: 'the client has gone away' });
}

const withoutAnswer = (error: NonNullable<Completion['error']>): Completion => {
  return { text: '', citations: [], calls: [], finishReason: null, error, usage: NO_USAGE };
};

type Streamed = CompletionPieces &
  Readonly<{ toFrame: ReturnType<typeof createFrames>; headers: Readonly<Record<string, string>> }>;

function streamed(c: Context<HttpEnv>, deps: HttpDeps, { pieces, leave, toFrame, headers }: Streamed): Response {
  const reader = deps.metrics.http.readerJoined();
  return framesResponse(withBegin(pieces), toFrame, {
    // Aborts only with the client. If the server stops or the key is revoked, the pieces end with an error, for which
    // the response stays open.
    signal: c.req.raw.signal,
    headers,
    onEnd: () => {
      reader[Symbol.dispose]();
      leave().catch((error: unknown) => toFailed(c, deps, error));
    },
  });
}
