import { createRoute, z } from '@hono/zod-openapi';
import { formatCallId, formatId } from '../../domain/ids.ts';
import { ASKED_KINDS } from '../../domain/transcript/required-action.ts';
import { listWaitingCalls, type WaitingCall } from '../../store/lists/waiting-calls.ts';
import { cursorField, toCursor } from '../bodies/cursor.ts';
import { limitField } from '../bodies/fields.ts';
import { jsonOf, nextCursorBody, REFUSED, timeBody } from '../bodies/responses.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';

export const waitingCallBody = z
  .object({
    id: z.string(),
    kind: z.enum(ASKED_KINDS),
    toolName: z.string(),
    args: z.unknown(),
    messageId: z.string(),
    runId: z.string(),
    sessionId: z.string(),
    agent: z.string(),
    title: z.string().nullable().openapi({ description: 'Of the session.' }),
    step: z.int(),
    askedAt: timeBody,
    expiresAt: timeBody.nullable().openapi({ description: 'Until then it can be answered; null: for ever.' }),
    userWords: z.object({ text: z.string(), at: timeBody }).nullable().openapi({
      description:
        'The last message of the user that the session has taken up: at most 500 characters. An empty text has no words, or was too large for a list.',
    }),
  })
  .openapi('WaitingCall', {
    example: {
      id: 'call_0199c0ffee007000800000000000000a_1',
      kind: 'approval',
      toolName: 'bash',
      args: { command: 'npm publish' },
      messageId: 'msg_0199c0ffee007000800000000000000a',
      runId: 'run_0199c0ffee007000800000000000000a',
      sessionId: 'ses_0199c0ffee007000800000000000000a',
      agent: 'workspace',
      title: 'Release',
      step: 3,
      askedAt: '2026-01-31T12:00:00.000Z',
      expiresAt: null,
      userWords: { text: 'Publish the new version.', at: '2026-01-31T11:59:00.000Z' },
    },
  });

const list = createRoute({
  method: 'get',
  path: '/v1/inbox',
  operationId: 'listWaitingCalls',
  tags: ['runs'],
  summary: 'List the calls of all sessions that wait for a person or a client, oldest first',
  description:
    'Answer them with `POST /v1/runs/{id}/tool-calls/{toolCallId}`. A page has fewer calls than its limit where they are large.',
  request: { query: z.strictObject({ cursor: cursorField('inbox'), limit: limitField }) },
  responses: {
    200: jsonOf(z.object({ calls: z.array(waitingCallBody), nextCursor: nextCursorBody }), 'A page of the calls.'),
    ...REFUSED,
  },
});

export function registerInboxRoutes(app: BatonApp, { db }: HttpDeps): void {
  app.openapi(list, async (c) => {
    const { cursor, limit } = c.req.valid('query');
    const after = cursor && { messageId: cursor.messageId, index: cursor.index };
    const calls = await listWaitingCalls(db, { tenantId: tenantOf(c), limit, ...(after && { after }) });
    const last = calls.at(-1);
    // A page may be short because its calls are large or are being closed, so only an empty one is known to be the last.
    const nextCursor =
      last === undefined ? null : toCursor({ list: 'inbox', messageId: last.messageId, index: last.index });
    return c.json({ calls: calls.map(toBody), nextCursor }, 200);
  });
}

function toBody({ index, words, wordsAt, askedAt, expiresAt, ...call }: WaitingCall): z.infer<typeof waitingCallBody> {
  return {
    id: formatCallId(call.messageId, index),
    kind: call.kind,
    toolName: call.toolName,
    args: call.args,
    messageId: formatId('message', call.messageId),
    runId: formatId('run', call.runId),
    sessionId: formatId('session', call.sessionId),
    agent: call.agent,
    title: call.title,
    step: call.step,
    askedAt: askedAt.toISOString(),
    expiresAt: expiresAt?.toISOString() ?? null,
    userWords: wordsAt === null ? null : { text: words ?? '', at: wordsAt.toISOString() },
  };
}
