import { createRoute, z } from '@hono/zod-openapi';
import { afterAnswered } from '../../commands/after-commit.ts';
import { parseExactly } from '../../domain/exact-json.ts';
import { formatCallId, formatId } from '../../domain/ids.ts';
import { type Json, jsonObjectSchema } from '../../domain/transcript/message.ts';
import { ASKED_KINDS, type CallAnswer } from '../../domain/transcript/required-action.ts';
import { MAX_CONTENT_BODY_BYTES, MAX_DENIAL_REASON_CHARS } from '../../domain/tunables.ts';
import { type AnsweredCall, answerCall } from '../../store/changes/call-answers.ts';
import { toStorable } from '../../store/db/json.ts';
import { callIdField, idField, jsonField, noQuery, textField } from '../bodies/fields.ts';
import { jsonBody } from '../bodies/json-body.ts';
import { outputField } from '../bodies/output-field.ts';
import { BODY_REFUSED, CONFLICT, jsonOf, NOT_FOUND, REFUSED } from '../bodies/responses.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';
import { auditRequest } from '../middleware/audit-trail.ts';
import { limitBody } from '../middleware/body-limit.ts';
import { idempotencyHeader, workOnce } from '../middleware/idempotency.ts';

const OUTPUT =
  'What the call came to: a string or any JSON value, as a tool would return it; with files `{"type": "content", "value": […]}`, ' +
  'in which a file is named as in a message, or in the AI SDK’s words.';

/** The arguments of a call: an object. */
const argsField = jsonField
  .refine((given) => jsonObjectSchema.safeParse(given).success, 'must be an object')
  .transform((given) => toStorable(given) as Record<string, Json>);

export const answerBody = z
  .strictObject({
    decision: z.enum(['approve', 'deny']).optional(),
    args: argsField.optional().openapi({
      description:
        'With an approval: the call runs with these in place of those that the model gave, and the model is shown them.',
    }),
    reason: textField(MAX_DENIAL_REASON_CHARS).optional().openapi({ description: 'Of a denial; the model reads it.' }),
    output: outputField.optional().openapi({ description: OUTPUT }),
    isError: z.boolean().optional().openapi({ description: 'The output says why the call failed.' }),
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
    status: z.enum(['requires_action', 'running']).openapi({ description: 'Of the run after this answer.' }),
    open: z.int().openapi({ description: 'Calls that the run still waited for after this answer.' }),
  })
  .openapi('AnsweredToolCall');

const answer = createRoute({
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
    200: jsonOf(answeredBody, 'Taken.'),
    ...REFUSED,
    ...BODY_REFUSED,
    ...NOT_FOUND,
    ...CONFLICT,
  },
});

/** Answers of people and clients to required actions. */
export function registerToolCallRoutes(app: BatonApp, deps: HttpDeps): void {
  app.openapi(answer, async (c) => {
    const { id: runId, toolCallId: place } = c.req.valid('param');
    const given = withDigits(toAnswer(c.req.valid('json')), await c.req.text());
    const asked = { route: answer, request: { runId, place, given }, answer: answeredBody };
    let answered: AnsweredCall | undefined;
    const { body, headers } = await workOnce(c, deps.db, asked, async (tx) => {
      answered = await answerCall(tx, { tenantId: tenantOf(c), runId, ...place }, given);
      await auditRequest(tx, c, 'tool-call:answer');
      const { kind, open } = answered;
      return {
        runId: formatId('run', runId),
        toolCallId: formatCallId(place.messageId, place.index),
        kind,
        status: open === 0 ? ('running' as const) : ('requires_action' as const),
        open,
      };
    });
    if (answered !== undefined) await afterAnswered(deps, answered);
    return c.json(body, 200, headers);
  });
}

/** The same answer with the JSON of the client as it was written: the validated body has JavaScript's numbers. */
function withDigits(answer: CallAnswer, text: string): CallAnswer {
  const body = z.object({ output: z.unknown().optional(), args: z.unknown().optional() }).parse(parseExactly(text));
  if (answer.kind === 'output') return { ...answer, output: toStorable(body.output) as Json };
  if (answer.kind !== 'approve' || answer.args === undefined) return answer;
  return { ...answer, args: toStorable(body.args) as Record<string, Json> };
}

function toAnswer({ decision, args, reason, output, isError }: z.infer<typeof answerBody>): CallAnswer {
  if (output !== undefined) return { ...output, ...(isError === true && { isError }) };
  if (decision === 'approve') return { kind: 'approve', ...(args !== undefined && { args }) };
  return { kind: 'deny', ...(reason !== undefined && { reason }) };
}
