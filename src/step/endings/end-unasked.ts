import { beforeDeadline, type JobScope } from '../../claims/job-scope.ts';
import type { ContextDecision } from '../../domain/context/decide.ts';
import { withPending } from '../../domain/context/overflow-plan.ts';
import type { ErrorRecord } from '../../domain/errors.ts';
import { PROVIDER_ERROR_MESSAGES } from '../../domain/model/provider-errors.ts';
import { afterPauseMs } from '../../domain/model/retry-policy.ts';
import type { NextModel, Postponement, StepOutcome } from '../../domain/run/next-step.ts';
import { NO_USAGE } from '../../domain/usage.ts';
import type { StepDeps } from '../deps.ts';
import { endStep } from '../finish.ts';
import type { StepContext } from '../step-context.ts';
import { resetEvent } from './partial-answer.ts';

/** The run has reached a limit, so the model is not asked. */
export async function endAtLimit(
  deps: StepDeps,
  scope: JobScope,
  messageId: string,
  limit: NonNullable<StepOutcome['limit']>,
): Promise<void> {
  const outcome = { finishReason: 'aborted', toolCalls: 0, limit, result: { kind: 'answered' } } as const;
  await endStep(deps, scope, { ...unaskedEnding(scope, messageId), outcome });
}

/**
 * The provider asked another session to wait: the step begins again after the pause, or at once with the next model, and
 * counts no attempt.
 */
export async function endPostponed(
  deps: StepDeps,
  scope: JobScope,
  { messageId, leftMs, next }: Readonly<{ messageId: string; leftMs: number; next: NextModel | null }>,
): Promise<void> {
  const waits = postponementOf(deps, scope, leftMs);
  const postponement = next === null ? waits : { ...waits, delayMs: 0, next };
  const outcome = { finishReason: 'other', toolCalls: 0, result: { kind: 'postponed', postponement } } as const;
  await endStep(deps, scope, { ...unaskedEnding(scope, messageId), outcome });
}

/** The postponement of a job whose provider is paused for `leftMs`. */
export function postponementOf({ random }: Pick<StepDeps, 'random'>, scope: JobScope, leftMs: number): Postponement {
  const error = { code: 'rate_limited', message: PROVIDER_ERROR_MESSAGES.rate_limited } as const;
  return postponementIn(scope, afterPauseMs(leftMs, random()), error);
}

/** Postpones a job by `waitMs`, but not beyond the run's deadline. Readers see `error`. */
export function postponementIn(scope: JobScope, waitMs: number, error: ErrorRecord): Postponement {
  return { delayMs: beforeDeadline(scope, waitMs), attempt: scope.attempt, error };
}

function unaskedEnding(scope: JobScope, messageId: string) {
  return {
    messageId,
    response: { messageId, parts: [], superseded: true },
    usage: NO_USAGE,
    steps: 0,
    events: [resetEvent(scope, messageId)],
  } as const;
}

/**
 * The view does not fit, or soon will not: the opened message is dropped, and the step begins again after the
 * compaction or prune. If neither can help, the run ends.
 */
export async function endUnasked(
  deps: StepDeps,
  scope: JobScope,
  { messageId }: StepContext,
  decision: Exclude<ContextDecision, { kind: 'proceed' }>,
): Promise<void> {
  const unasked = unaskedEnding(scope, messageId);
  const outcome = { finishReason: 'other', toolCalls: 0 } as const;
  if (decision.kind === 'exhausted') {
    await endStep(deps, scope, {
      ...unasked,
      outcome: { ...outcome, result: { kind: 'exhausted', error: decision.error } },
    });
    return;
  }
  const contextState =
    decision.kind === 'prune'
      ? withPending(scope.contextState, 'threshold', false)
      : withPending(scope.contextState, decision.reason, decision.force);
  const result = { kind: 'repeat', after: decision.kind === 'prune' ? 'prune' : 'compaction' } as const;
  await endStep(deps, scope, { ...unasked, contextState, outcome: { ...outcome, result } });
}
