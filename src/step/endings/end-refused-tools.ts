import { logFields } from '../../claims/job-scope.ts';
import { toErrorRecord } from '../../domain/errors.ts';
import type { NewEvent } from '../../domain/run/events.ts';
import type { Part } from '../../domain/transcript/message.ts';
import { NO_USAGE } from '../../domain/usage.ts';
import type { ModelFailure } from '../../model/model-error.ts';
import { failureFields } from '../../platform/log.ts';
import { rememberToolRefusal } from '../../store/work/model-limits.ts';
import type { Answering } from '../answering.ts';
import { endStep } from '../finish.ts';
import { keptIfCancelled, resetEvent } from './partial-answer.ts';

/**
 * The endpoint takes no tools for this model: remembers that for all sessions and repeats the step without tools.
 * False: the request had no tools, so it was refused for another reason.
 */
export async function endRefusedTools(
  answering: Answering,
  streamed: readonly Part[],
  failure: ModelFailure,
): Promise<boolean> {
  const { deps, scope, messageId, context } = answering;
  if (context.tools.length === 0) return false;
  await rememberToolRefusal(deps.db, context.modelKey);
  const error = toErrorRecord(failure.error);
  deps.log('warn', { event: 'step_failed', ...logFields(scope), ...failureFields(failure.error) });
  const events: NewEvent[] = [{ type: 'llm:error', data: { error, recoverable: true } }, resetEvent(scope, messageId)];
  await endStep(deps, scope, {
    messageId,
    response: { messageId, parts: [], error, superseded: true },
    ...keptIfCancelled(answering, streamed),
    usage: NO_USAGE,
    steps: 0,
    events,
    outcome: { finishReason: 'error', toolCalls: 0, result: { kind: 'repeat', after: 'step' } },
  });
  return true;
}
