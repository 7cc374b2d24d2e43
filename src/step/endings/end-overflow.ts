import { logFields } from '../../claims/job-scope.ts';
import { type Lesson, lessonOfNumbers, lessonOfRefusal } from '../../domain/context/meter/learned-limits.ts';
import { type OverflowRemedy, planOverflow, withPending } from '../../domain/context/overflow-plan.ts';
import { toErrorRecord, withProvider } from '../../domain/errors.ts';
import { hasFiles } from '../../domain/model/shown-media.ts';
import type { NewEvent } from '../../domain/run/events.ts';
import { partEvents } from '../../domain/run/part-events.ts';
import type { Part } from '../../domain/transcript/message.ts';
import { NO_USAGE } from '../../domain/usage.ts';
import type { ModelFailure } from '../../model/model-error.ts';
import { failureFields } from '../../platform/log.ts';
import type { Answering } from '../answering.ts';
import { endStep } from '../finish.ts';
import { learnLimits } from '../step-context.ts';
import { keptIfCancelled, partialEnding, resetEvent } from './partial-answer.ts';

/**
 * The provider refused the request for its size: remembers the limits in its error, then repeats the step after a
 * compaction or prune, or ends the run. False: the remedy cannot help, and the error is handled like any other.
 */
export async function endOverflow(
  answering: Answering,
  streamed: readonly Part[],
  failure: ModelFailure,
  remedy: OverflowRemedy,
): Promise<boolean> {
  const { deps, scope, messageId, context, maxOutputTokens } = answering;
  const { meter, view } = context;
  const error = toErrorRecord(failure.error);
  const plan = planOverflow({
    meter,
    state: scope.contextState,
    place: { runId: scope.runId, stepNo: scope.stepNo },
    remedy,
    numbers: failure.overflow,
    maxOutputTokens,
    hasMedia: view.some(hasFiles),
    message: error.message.replace(/\.$/, ''),
  });
  if (plan.kind === 'helpless') return false;
  await learnLimits(deps, context, lessonOf(answering, failure, remedy));
  deps.log('warn', { event: 'step_failed', ...logFields(scope), ...failureFields(failure.error) });
  const outcome = { finishReason: 'error', toolCalls: 0 } as const;
  const events: NewEvent[] = [
    { type: 'llm:error', data: { error, recoverable: plan.kind === 'retry' } },
    resetEvent(scope, messageId),
  ];
  const dropped = {
    messageId,
    response: { messageId, parts: [], error, superseded: true },
    ...keptIfCancelled(answering, streamed),
    usage: NO_USAGE,
  } as const;
  await endStep(
    deps,
    scope,
    plan.kind === 'retry'
      ? {
          ...dropped,
          steps: 0,
          events,
          contextState: plan.contextState,
          outcome: { ...outcome, result: { kind: 'repeat', after: plan.after } },
        }
      : {
          ...dropped,
          steps: 0,
          events,
          outcome: { ...outcome, result: { kind: 'exhausted', error: withProvider(plan.error, error) } },
        },
  );
  return true;
}

/** An error without numbers teaches the size of the request only if the remedy is to compact the history. */
function lessonOf({ scope, context }: Answering, { overflow }: ModelFailure, remedy: OverflowRemedy): Lesson | null {
  if (overflow !== null || remedy !== 'compact') return lessonOfNumbers(overflow);
  const { meter, measurement } = context;
  return lessonOfRefusal(meter, measurement, meter.anchorOf(scope.contextState)?.usage ?? null);
}

/**
 * The worker stopped the answer because the window was nearly full; incomplete calls are dropped. Its text is kept and
 * the model continues after a compaction; without text the step is repeated.
 */
export async function endStoppedAnswer(answering: Answering, streamed: readonly Part[]): Promise<void> {
  const { deps, scope, messageId } = answering;
  const { runId, stepNo } = scope;
  const parts = streamed.filter((part) => part.type !== 'tool' && part.type !== 'reasoning');
  const hasText = parts.some((part) => part.type === 'text' && part.text.trim() !== '');
  const contextState = withPending({ ...scope.contextState, streamStop: { runId, stepNo } }, 'stream');
  const error = { code: 'input_overflow', message: 'The window was nearly full: the answer was stopped.' } as const;
  const events: NewEvent[] = [{ type: 'llm:error', data: { error, recoverable: true } }];
  const outcome = { finishReason: 'length', toolCalls: 0 } as const;
  deps.log('warn', {
    event: 'step_failed',
    ...logFields(scope),
    code: error.code,
    error: { name: 'WindowNearlyFull' },
  });
  if (!hasText) {
    events.push(resetEvent(scope, messageId));
    const response = { messageId, parts: [], error, superseded: true };
    const kept = keptIfCancelled(answering, streamed);
    const dropped = { messageId, response, ...kept, usage: NO_USAGE, steps: 0 } as const;
    const result = { kind: 'repeat', after: 'compaction' } as const;
    await endStep(deps, scope, { ...dropped, contextState, events, outcome: { ...outcome, result } });
    return;
  }
  await endStep(deps, scope, {
    ...partialEnding(answering, parts, { finishReason: 'length' }),
    steps: 1,
    contextState,
    events: [...events, ...partEvents(messageId, parts)],
    outcome: { ...outcome, result: { kind: 'answered', isUnfinished: true, before: 'compaction' } },
  });
}
