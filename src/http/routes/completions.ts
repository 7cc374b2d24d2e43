import { createRoute, z } from '@hono/zod-openapi';
import type { Context } from 'hono';
import { BatonError } from '../../domain/errors.ts';
import { formatId } from '../../domain/ids.ts';
import { framesResponse } from '../../events/sse.ts';
import { completionRequestSchema } from '../../facades/openai/completion-request.ts';
import type { Completion, CompletionPiece } from '../../facades/openai/completion-writer.ts';
import { noQuery, textField } from '../fields.ts';
import type { BatonApp, HttpDeps, HttpEnv } from '../http-deps.ts';
import { createFrames, headOfAnswer, toCompletionBody, toFailure } from '../openai/completion-bodies.ts';
import { completionPieces } from '../openai/completion-pieces.ts';
import { startCompletion } from '../openai/start-completion.ts';
import { ProblemError } from '../problem.ts';
import { untilGone } from '../request-signal.ts';
import { BODY_REFUSED, CONFLICT, jsonOf, NOT_FOUND, REFUSED } from '../responses.ts';

const tags = ['OpenAI'];

const completionBody = z.looseObject({
  id: z.string(),
  object: z.literal('chat.completion'),
  created: z.int(),
  model: z.string(),
  choices: z.array(z.looseObject({})),
  usage: z.looseObject({}),
});

const complete = createRoute({
  method: 'post',
  path: '/v1/chat/completions',
  tags,
  summary: 'Complete a chat, as with OpenAI',
  description:
    '`model` is the name of an agent. Errors are problems that have OpenAI’s `error` in them. With `x-session-id` the session is the one of that name, without it the one of this conversation.',
  request: {
    query: noQuery,
    headers: z.object({ 'x-session-id': textField(256).min(1).optional() }),
    body: {
      required: true,
      content: { 'application/json': { schema: z.strictObject(completionRequestSchema.shape).openapi('Completion') } },
    },
  },
  responses: {
    200: {
      description: 'The completion, or with `stream` its chunks as server-sent events.',
      content: { 'application/json': { schema: completionBody }, 'text/event-stream': { schema: z.string() } },
    },
    ...REFUSED,
    ...BODY_REFUSED,
    ...NOT_FOUND,
    ...CONFLICT,
  },
});

const models = createRoute({
  method: 'get',
  path: '/v1/models',
  tags,
  summary: 'List the agents, as OpenAI lists models',
  request: { query: noQuery },
  responses: {
    200: jsonOf(
      z.object({
        object: z.literal('list'),
        data: z.array(
          z.object({ id: z.string(), object: z.literal('model'), created: z.int(), owned_by: z.literal('baton') }),
        ),
      }),
      'The agents.',
    ),
    ...REFUSED,
  },
});

/** Whoever speaks to OpenAI's API can speak to an agent. */
export function registerCompletionRoutes(app: BatonApp, deps: HttpDeps): void {
  app.openapi(models, (c) => {
    const data = deps.agents
      .names()
      .map((id) => ({ id, object: 'model' as const, created: 0, owned_by: 'baton' as const }));
    return c.json({ object: 'list' as const, data }, 200);
  });

  app.openapi(complete, async (c) => {
    const body = c.req.valid('json');
    knownAgent(deps, body.model);
    const sessionName = c.req.valid('header')['x-session-id'];
    const signal = untilGone(c);
    const started = await startCompletion(deps, c.get('caller'), { body, sessionName, signal });
    const isStream = body.stream === true;
    const options = { signal, isDurable: sessionName !== undefined, isStream, isGone: () => isGone(c) };
    const pieces = completionPieces(deps, started, options);
    const head = headOfAnswer(started, body.model, Date.now());
    const headers = { 'x-session-id': formatId('session', started.sessionId), 'x-should-retry': 'false' };
    if (isStream) {
      const frames = createFrames(head, started.usedBefore, body.stream_options?.include_usage === true);
      return streamed(c, deps, pieces, frames, headers);
    }
    const completion = await completionOf(pieces);
    if (completion.error === null) return c.json(toCompletionBody(head, completion, started.usedBefore), 200, headers);
    const { status, error } = toFailure(completion.error);
    return new Response(JSON.stringify({ error }), {
      status,
      headers: { ...headers, 'content-type': 'application/json' },
    });
  });
}

/** @throws ProblemError `not_found`, as OpenAI does where there is no such model */
function knownAgent({ agents }: HttpDeps, name: string): void {
  if (agents.names().includes(name)) return;
  const detail = `There is no agent ${JSON.stringify(name)}; known: ${agents.names().join(', ')}`;
  throw new ProblemError('not_found', detail, { errors: [{ path: 'model', message: detail }] });
}

async function completionOf(pieces: AsyncIterable<CompletionPiece>): Promise<Completion> {
  for await (const piece of pieces) if ('completion' in piece) return piece.completion;
  throw new BatonError('store_unavailable', 'the server stops, or the session is gone');
}

function streamed(
  c: Context<HttpEnv>,
  { metrics }: HttpDeps,
  pieces: AsyncIterable<CompletionPiece>,
  toFrame: ReturnType<typeof createFrames>,
  headers: Readonly<Record<string, string>>,
): Response {
  const reader = metrics.http.readerJoined();
  return framesResponse(withBegin(pieces), toFrame, {
    signal: untilGone(c),
    headers,
    onEnd: () => reader[Symbol.dispose](),
  });
}

async function* withBegin(pieces: AsyncIterable<CompletionPiece>): AsyncGenerator<CompletionPiece | 'begin'> {
  yield 'begin';
  yield* pieces;
}

/** The client itself, and not the server or its key. */
function isGone(c: Context<HttpEnv>): boolean {
  return c.env?.shutdown?.aborted !== true && c.get('revoked')?.aborted !== true;
}
