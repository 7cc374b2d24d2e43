import { createRoute, z } from '@hono/zod-openapi';
import { toStorable } from '../domain/storable-json.ts';
import { type Json, jsonObjectSchema } from '../domain/transcript/message.ts';
import { ASKED_KINDS } from '../domain/transcript/required-action.ts';
import { MAX_CONTENT_BODY_BYTES, MAX_DENIAL_REASON_CHARS } from '../domain/tunables.ts';
import { limitBody } from './body-limit.ts';
import { callIdField, idField, jsonField, noQuery, textField } from './fields.ts';
import { idempotencyHeader } from './idempotency-key.ts';
import { jsonBody } from './json-body.ts';
import { outputField } from './output-field.ts';
import { BODY_REFUSED, CONFLICT, jsonOf, NOT_FOUND, REFUSED } from './responses.ts';

const OUTPUT =
  'Output of the call: a string or any JSON value, as a tool would return it; with files `{"type": "content", "value": […]}`, ' +
  'in which a file is named as in a message, or in the AI SDK’s words.';

/** The arguments of a call: an object. */
const argsField = jsonField
  .refine((value) => jsonObjectSchema.safeParse(value).success, 'must be an object')
  .transform((value) => toStorable(value) as Record<string, Json>);

export const answerBody = z
  .strictObject({
    decision: z.enum(['approve', 'deny']).optional(),
    args: argsField.optional().openapi({
      description: 'Arguments that replace those of the model, with an approval. The model is shown them.',
    }),
    reason: textField(MAX_DENIAL_REASON_CHARS)
      .optional()
      .openapi({ description: 'Reason for a denial. The model sees it.' }),
    output: outputField.optional().openapi({ description: OUTPUT }),
    isError: z.boolean().optional().openapi({ description: 'True: the output says why the call failed.' }),
  })
  .superRefine((body, ctx) => {
    const refuse = (path: string, message: string): void => ctx.addIssue({ code: 'custom', path: [path], message });
    const hasOutput = body.output !== undefined;
    if (hasOutput && body.decision !== undefined) refuse('output', 'either a decision or an output');
    if (!hasOutput && body.decision === undefined) refuse('decision', 'a decision or an output');
    if (body.args !== undefined && body.decision !== 'approve') refuse('args', 'belong to an approval');
    if (body.reason !== undefined && body.decision !== 'deny') refuse('reason', 'belongs to a denial');
    if (body.isError !== undefined && !hasOutput) refuse('isError', 'belongs to an output');
  })
  .openapi('ToolCallAnswer', { example: { decision: 'approve' } });

export const answeredBody = z
  .object({
    runId: z.string(),
    toolCallId: z.string(),
    kind: z.enum(ASKED_KINDS),
    status: z.enum(['requires_action', 'running']).openapi({ description: 'Status of the run after this answer.' }),
    open: z.int().openapi({ description: 'Calls that the run still waited for after this answer.' }),
  })
  .openapi('AnsweredToolCall');

export const answerToolCallRoute = createRoute({
  method: 'post',
  path: '/v1/runs/{id}/tool-calls/{toolCallId}',
  middleware: limitBody(MAX_CONTENT_BODY_BYTES),
  operationId: 'answerToolCall',
  tags: ['runs'],
  summary: 'Answer a tool call that a run waits for',
  description:
    'Approve or deny it, or give its output. The run goes on when every call of the step is answered; what was approved runs then. The same answer again changes nothing.',
  request: {
    params: z.strictObject({
      id: idField('run').openapi({ param: { name: 'id', in: 'path', required: true } }),
      toolCallId: callIdField.openapi({ param: { name: 'toolCallId', in: 'path', required: true } }),
    }),
    query: noQuery,
    headers: idempotencyHeader,
    body: jsonBody(answerBody),
  },
  responses: {
    200: jsonOf(answeredBody, 'The answer is stored.'),
    ...REFUSED,
    ...BODY_REFUSED,
    ...NOT_FOUND,
    ...CONFLICT,
  },
});
