import { createRoute, z } from '@hono/zod-openapi';
import { ASKED_KINDS } from '../domain/transcript/required-action.ts';
import { cursorField } from './cursor.ts';
import { limitField } from './fields.ts';
import { jsonOf, jsonValueBody, nextCursorBody, REFUSED, timeBody } from './responses.ts';
import { questionsBody } from './run-body.ts';
import { nameField } from './session-body.ts';

export const waitingCallBody = z
  .object({
    id: z.string(),
    kind: z.enum(ASKED_KINDS),
    toolName: z.string(),
    args: jsonValueBody,
    questions: questionsBody.nullable(),
    messageId: z.string(),
    runId: z.string(),
    sessionId: z.string(),
    agent: z.string(),
    sessionName: nameField,
    title: z.string().nullable().openapi({ description: 'Title of the session, as it was set.' }),
    step: z.int(),
    askedAt: timeBody,
    expiresAt: timeBody
      .nullable()
      .openapi({ description: 'Time until which the call can be answered. null: for ever.' }),
    userWords: z.object({ text: z.string(), at: timeBody }).nullable().openapi({
      description:
        'Last message of the user that a run has handled, at most 500 characters. An empty text has no words, or was too large for a list.',
    }),
  })
  .openapi('WaitingCall', {
    example: {
      id: 'call_0199c0ffee007000800000000000000a_1',
      kind: 'approval',
      toolName: 'bash',
      args: { command: 'npm publish' },
      questions: null,
      messageId: 'msg_0199c0ffee007000800000000000000a',
      runId: 'run_0199c0ffee007000800000000000000a',
      sessionId: 'ses_0199c0ffee007000800000000000000a',
      agent: 'workspace',
      sessionName: 'Release',
      title: 'Release',
      step: 3,
      askedAt: '2026-01-31T12:00:00.000Z',
      expiresAt: null,
      userWords: { text: 'Publish the new version.', at: '2026-01-31T11:59:00.000Z' },
    },
  });

export const listWaitingCallsRoute = createRoute({
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
