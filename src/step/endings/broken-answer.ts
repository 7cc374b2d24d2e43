import { beforeDeadline, logFields } from '../../claims/job-scope.ts';
import { withPending } from '../../domain/context/overflow-plan.ts';
import { worthOf } from '../../domain/context/prune/prune-plan.ts';
import { toErrorRecord } from '../../domain/errors.ts';
import { withWayOut } from '../../domain/model/remedies/way-out.ts';
import { planRetry, REMEDIES } from '../../domain/model/retry-policy.ts';
import type { NewEvent } from '../../domain/run/events.ts';
import { partEvents } from '../../domain/run/part-events.ts';
import type { Part } from '../../domain/transcript/message.ts';
import { NO_USAGE } from '../../domain/usage.ts';
import { type ModelFailure, toModelFailure } from '../../model/model-error.ts';
import { failureFields } from '../../platform/log.ts';
import { failActiveSpan } from '../../platform/tracing.ts';
import { rememberToolRefusal } from '../../store/work/model-limits.ts';
import { pauseModel } from '../../store/work/provider-pauses.ts';
import type { Answering } from '../answering.ts';
import type { ModelCallResult } from '../call-model.ts';
import { endStep } from '../finish.ts';
import { attemptWithModel, nextModelAfter } from '../next-model.ts';
import { endOverflow, endStoppedAnswer } from './end-overflow.ts';
import { endRefusedForm, rememberRemedies } from './end-refused-form.ts';
import { endCancelledAnswer, keptIfCancelled, partialEnding, resetEvent } from './partial-answer.ts';

/**
 * Ends a step whose answer broke off.
 * - The run is `cancelling`: keep the streamed parts.
 * - A refusal of the request's form that has a remedy: repeat the step with it.
 * - Overflow: repeat the step after a compaction or a prune.
 * - The model takes no tools: repeat the step without them.
 * - A passing error: retry as a delayed step. Any other error ends the run.
 */
export async function endBrokenAnswer(answering: Answering, result: ModelCallResult): Promise<void> {
  // The provider began to answer, so it took the request.
  if (result.partial.length > 0) await rememberRemedies(answering);
  if (answering.scope.held.stopped() === 'cancelled') return endCancelledAnswer(answering, result.partial);
  if (result.end.kind === 'stopped') return endStoppedAnswer(answering, result.partial);
  const failure = result.failure ?? toModelFailure(new Error('the answer broke off'));
  if (await endRefusedForm(answering, result.partial, failure)) return;
  const remedy = REMEDIES[failure.class];
  if (remedy === 'drop_tools') {
    if (await endRefusedTools(answering, result.partial, failure)) return;
  } else if (remedy !== 'wait' && remedy !== 'none') {
    if (await endOverflow(answering, result.partial, failure, remedy)) return;
  }
  await endFailedAnswer(answering, result.partial, failure);
}

async function endFailedAnswer(answering: Answering, streamed: readonly Part[], failure: ModelFailure): Promise<void> {
  const { deps, scope, messageId, context } = answering;
  const next = await nextModelAfter(deps, scope, failure);
  const continuation =
    next === null
      ? planRetry(failure.class, attemptWithModel(scope), failure.retryAfterMs, deps.random())
      : ({ retry: true, delayMs: 0 } as const);
  const plan = continuation.retry
    ? { ...continuation, delayMs: beforeDeadline(scope, continuation.delayMs) }
    : continuation;
  // Pause the model for all sessions, or each of them would be refused on its own.
  if (continuation.retry && failure.class === 'rate_limited') {
    const pauseMs = next === null ? continuation.delayMs : (failure.retryAfterMs ?? 0);
    await pauseModel(deps.db, context.resolved, scope, pauseMs);
  }
  const error = plan.retry ? toErrorRecord(failure.error) : withWayOut(toErrorRecord(failure.error), context.tools);
  failActiveSpan(failure.error);
  const retry = plan.retry
    ? { retry: { delayMs: plan.delayMs, attempt: scope.attempt, ...(next !== null && { next }) } }
    : {};
  deps.log(plan.retry ? 'warn' : 'error', {
    event: 'step_failed',
    ...logFields(scope),
    ...failureFields(failure.error),
    ...(plan.retry ? { retryInMs: plan.delayMs } : {}),
  });
  const events: NewEvent[] = [{ type: 'llm:error', data: { error, recoverable: plan.retry } }];
  const parts = streamed.filter((part) => part.type !== 'tool');
  events.push(...(plan.retry ? [resetEvent(scope, messageId)] : partEvents(messageId, parts)));
  const { meter, view, measurement } = context;
  const isPruneDue = !plan.retry && worthOf(meter, scope.contextState, view, measurement.total).prune();
  await endStep(deps, scope, {
    ...partialEnding(answering, parts, { finishReason: 'error', error, dropped: plan.retry }),
    ...(plan.retry && keptIfCancelled(answering, streamed)),
    events,
    ...(isPruneDue && {
      maintenanceAtEnd: 'prune' as const,
      contextState: withPending(scope.contextState, 'threshold', false),
    }),
    outcome: { finishReason: 'error', toolCalls: 0, result: { kind: 'failed', error, ...retry } },
  });
}

/**
 * The endpoint takes no tools for this model: remembers that for all sessions and repeats the step without tools.
 * False: the request had no tools, so it was refused for another reason.
 */
async function endRefusedTools(
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
