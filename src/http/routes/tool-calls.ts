import { z } from '@hono/zod-openapi';
import { type answerBody, answeredBody, answerToolCallRoute } from '../../api/tool-calls.ts';
import { afterAnswered } from '../../commands/after-commit.ts';
import { answerCallIn, type CallAfterAnswer } from '../../commands/answer-call.ts';
import { parseExactly } from '../../domain/exact-json.ts';
import { formatCallId, formatId } from '../../domain/ids.ts';
import { toStorable } from '../../domain/storable-json.ts';
import type { Json } from '../../domain/transcript/message.ts';
import type { CallAnswer } from '../../domain/transcript/required-action.ts';
import type { HttpDeps } from '../http-deps.ts';
import type { BatonApp } from '../http-env.ts';
import { workOnce } from '../middleware/idempotency.ts';

/** Answers of people and clients to required actions. */
export function registerToolCallRoutes(app: BatonApp, deps: HttpDeps): void {
  app.openapi(answerToolCallRoute, async (c) => {
    const { id: runId, toolCallId: place } = c.req.valid('param');
    const answer = withDigits(toAnswer(c.req.valid('json')), await c.req.text());
    const submission = { route: answerToolCallRoute, request: { runId, place, given: answer }, answer: answeredBody };
    let answered: CallAfterAnswer | undefined;
    const { body, headers } = await workOnce(c, deps.db, submission, async (tx) => {
      answered = await answerCallIn(tx, { actor: c.get('caller'), runId, ...place, answer });
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
function withDigits(answerToolCallRoute: CallAnswer, text: string): CallAnswer {
  const body = z.object({ output: z.unknown().optional(), args: z.unknown().optional() }).parse(parseExactly(text));
  if (answerToolCallRoute.kind === 'output') return { ...answerToolCallRoute, output: toStorable(body.output) as Json };
  if (answerToolCallRoute.kind !== 'approve' || answerToolCallRoute.args === undefined) return answerToolCallRoute;
  return { ...answerToolCallRoute, args: toStorable(body.args) as Record<string, Json> };
}

function toAnswer({ decision, args, reason, output, isError }: z.infer<typeof answerBody>): CallAnswer {
  if (output !== undefined) return { ...output, ...(isError === true && { isError }) };
  if (decision === 'approve') return { kind: 'approve', ...(args !== undefined && { args }) };
  return { kind: 'deny', ...(reason !== undefined && { reason }) };
}
