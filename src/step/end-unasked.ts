import type { ContextDecision } from '../domain/context/decide.ts';
import { withPending } from '../domain/context/overflow-plan.ts';
import { NO_USAGE } from '../domain/usage.ts';
import type { JobScope } from '../jobs/job-scope.ts';
import type { StepDeps } from './deps.ts';
import { endStep } from './finish.ts';
import { resetEvent } from './partial-answer.ts';
import type { StepContext } from './step-context.ts';

/**
 * The view does not fit, or is about to: the model is not asked. The message that was opened is dropped, and the step
 * begins again after the compaction or the prune; what can not be made to fit ends the run.
 */
export async function endUnasked(
  deps: StepDeps,
  scope: JobScope,
  { messageId }: StepContext,
  decision: Exclude<ContextDecision, { kind: 'proceed' }>,
): Promise<void> {
  const unasked = {
    messageId,
    response: { messageId, parts: [], superseded: true },
    usage: NO_USAGE,
    steps: 0,
    events: [resetEvent(scope, messageId)],
  } as const;
  const outcome = { finishReason: 'other', toolCalls: 0, stillRan: [] } as const;
  if (decision.kind === 'exhausted') {
    await endStep(deps, scope, { ...unasked, outcome: { ...outcome, exhausted: decision.error } });
    return;
  }
  const contextState =
    decision.kind === 'prune'
      ? withPending(scope.contextState, 'threshold', false)
      : withPending(scope.contextState, decision.reason, decision.force);
  const detour = decision.kind === 'prune' ? 'prune' : 'compaction';
  await endStep(deps, scope, { ...unasked, contextState, outcome: { ...outcome, detour } });
}
