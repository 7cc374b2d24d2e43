import { createRoute, z } from '@hono/zod-openapi';
import type { Context } from 'hono';
import { limitBody } from '../../api/body-limit.ts';
import { noQuery, textField } from '../../api/fields.ts';
import { idempotencyHeader } from '../../api/idempotency-key.ts';
import { BODY_REFUSED, CONFLICT, jsonOf, NOT_FOUND, REFUSED } from '../../api/responses.ts';
import { formatId } from '../../domain/ids.ts';
import { MAX_CONTENT_BODY_BYTES } from '../../domain/tunables.ts';
import { NO_USAGE } from '../../domain/usage.ts';
import type { HttpDeps } from '../../http/http-deps.ts';
import type { BatonApp, HttpEnv } from '../../http/http-env.ts';
import { refuseUnknownModel } from '../../http/known-agent.ts';
import { isGone, untilGone, whyEnded } from '../../http/request-signal.ts';
import { framesResponse } from '../../http/sse.ts';
import { createFrames, headOfAnswer, toCompletionBody, toFailedResponse, waitingError } from './completion-bodies.ts';
import { type CompletionPieces, completionPieces, withBegin } from './completion-pieces.ts';
import { completionRequestSchema } from './completion-request.ts';
import type { Completion } from './completion-writer.ts';
import { toFailed } from './reader-failure.ts';
import { repetitionOf, startCompletion } from './start-completion.ts';

const tags = ['OpenAI'];

const toolCallBody = z.looseObject({
  id: z.string(),
  type: z.literal('function'),
  function: z.object({ name: z.string(), arguments: z.string().openapi({ description: 'Arguments as JSON.' }) }),
});

const choiceBody = z.looseObject({
  index: z.int(),
  message: z.looseObject({
    role: z.literal('assistant'),
    content: z.string().nullable(),
    tool_calls: z.array(toolCallBody).optional(),
  }),
  finish_reason: z.string().nullable(),
});

const completionBody = z.looseObject({
  id: z.string(),
  object: z.literal('chat.completion'),
  created: z.int(),
  model: z.string(),
  choices: z.array(choiceBody),
  usage: z.looseObject({ prompt_tokens: z.int(), completion_tokens: z.int(), total_tokens: z.int() }),
});

const failedBody = z.object({ error: z.looseObject({ message: z.string(), code: z.string().nullable() }) });
const failed = (description: string) => jsonOf(failedBody, `The run was begun, and has failed: ${description}`);
/** Responses of runs that failed, besides those of refused requests. */
const RUN_FAILED = {
  422: failed('there is no room for an answer, or a policy forbids it.'),
  502: failed('the model’s provider could not be reached or has refused.'),
  504: failed('the model’s provider has not answered in time.'),
} as const;

const complete = createRoute({
  method: 'post',
  path: '/v1/chat/completions',
  middleware: limitBody(MAX_CONTENT_BODY_BYTES),
  operationId: 'createChatCompletion',
  tags,
  summary: 'Complete a chat, as with OpenAI',
  description:
    '`model` is the name of an agent. Errors are problems that have OpenAI’s `error` in them. With `x-session-id` the session is the one of that name, without it the one of this conversation.',
  request: {
    query: noQuery,
    headers: idempotencyHeader.extend({
      'x-session-id': textField(256).min(1).optional(),
      'x-stainless-retry-count': z
        .string()
        .max(16)
        .optional()
        .openapi({ description: 'Number of the retry by the openai library. 0 for a first request.' }),
    }),
    body: {
      required: true,
      content: {
        'application/json': {
          schema: z.strictObject(completionRequestSchema.shape).openapi('Completion', {
            example: {
              model: 'workspace',
              messages: [{ role: 'user', content: 'Which files here mention shipping?' }],
            },
          }),
        },
      },
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
    ...RUN_FAILED,
  },
});

const modelBody = z.object({
  id: z.string(),
  object: z.literal('model'),
  created: z.int(),
  owned_by: z.literal('baton'),
});
const asModel = (id: string) => ({ id, object: 'model' as const, created: 0, owned_by: 'baton' as const });

const models = createRoute({
  method: 'get',
  path: '/v1/models',
  operationId: 'listModels',
  tags,
  summary: 'List the agents, as OpenAI lists models',
  request: { query: noQuery },
  responses: {
    200: jsonOf(z.object({ object: z.literal('list'), data: z.array(modelBody) }), 'The agents.'),
    ...REFUSED,
  },
});

const model = createRoute({
  method: 'get',
  path: '/v1/models/{model}',
  operationId: 'getModel',
  tags,
  summary: 'Read an agent, as OpenAI tells a model',
  request: { query: noQuery, params: z.object({ model: textField(256).min(1) }) },
  responses: { 200: jsonOf(modelBody, 'The agent.'), ...REFUSED, ...NOT_FOUND },
});

/** OpenAI's chat completions and models. An agent is a model. */
export function registerCompletionRoutes(app: BatonApp, deps: HttpDeps): void {
  app.openapi(models, async (c) => {
    const agents = await deps.agents.current();
    return c.json({ object: 'list' as const, data: agents.names().map(asModel) }, 200);
  });

  app.openapi(model, async (c) => {
    const { model: name } = c.req.valid('param');
    await refuseUnknownModel(deps.agents, name);
    return c.json(asModel(name), 200);
  });

  app.openapi(complete, async (c) => {
    const body = c.req.valid('json');
    await refuseUnknownModel(deps.agents, body.model);
    const header = c.req.valid('header');
    const sessionName = header['x-session-id'] ?? null;
    const repetition = repetitionOf(header);
    const isStream = body.stream === true;
    // The library retries a request for a whole answer. It never asks for the rest of a stream.
    const endsWithClient = isStream && sessionName === null && repetition.key === null;
    const signal = untilGone(c);
    const start = { body, sessionName, ...repetition, endsWithClient, signal };
    const started = await startCompletion(deps, c.get('caller'), start);
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
