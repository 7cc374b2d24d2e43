import { runClaimed } from '../claims/claimed-job.ts';
import type { JobScope } from '../claims/job-scope.ts';
import { retryWhileStoreUnavailable } from '../claims/retry-while-store-unavailable.ts';
import { afterEvent } from '../commands/after-commit.ts';
import { BatonError } from '../domain/errors.ts';
import type { JobPayload } from '../domain/run/job.ts';
import { NO_USAGE } from '../domain/usage.ts';
import { inSpan } from '../platform/tracing.ts';
import type { JobOutcome } from '../queues/job-queue.ts';
import { type ClaimedRun, restartStep } from '../store/work/claims.ts';
import { answerStep } from './answer-step.ts';
import type { StepDeps } from './deps.ts';
import { endStep } from './finish.ts';
import { endBrokenStep, recoverStep } from './recover-step.ts';
import type { BegunStep } from './step-context.ts';

/**
 * Executes one step job: claim, recover an interrupted step, drain the inbox, one model call with its tools, finish.
 * @throws errors of an unavailable database: the run stays claimed and is recovered
 */
export function runStep(deps: StepDeps, job: JobPayload, jobSignal: AbortSignal): Promise<JobOutcome> {
  const claimAndWork = () =>
    runClaimed(deps, job, jobSignal, (scope, claim, messageId) =>
      inSpan('step', { attributes: { 'baton.step': scope.stepNo } }, async () => {
        const start = await begin(deps, scope, claim, messageId);
        if (start !== null) await answerStep(deps, scope, start);
      }),
    );
  return deps.carried === undefined ? claimAndWork() : deps.carried.accept(job, claimAndWork);
}

/** The step to answer. Null: it was recovered, cancelled or lost. */
async function begin(deps: StepDeps, scope: JobScope, claim: ClaimedRun, messageId: string): Promise<BegunStep | null> {
  const start = toBegun(messageId, claim);
  if (start !== null) return { ...start, modelMemory: claim.modelMemory };
  const { interruptedMessageId } = claim;
  const broken = interruptedMessageId === null ? null : await recoverStep(deps, scope, interruptedMessageId);
  if (broken === 'step-ended') return null;
  const restarted = await retryWhileStoreUnavailable(scope.held, () =>
    restartStep(deps.db, scope.fence, messageId, broken),
  );
  if (restarted === null) throw new BatonError('fenced', 'another worker has the run');
  afterEvent(deps, scope.sessionId, restarted);
  if (restarted.view === null) {
    // An earlier try restarted the step, but its reply was lost: its message has replaced the broken one.
    const openId = restarted.messageSeq === null ? broken?.messageId : messageId;
    await (openId === undefined ? endCancelled(deps, scope) : endBrokenStep({ deps, scope, messageId: openId }));
  }
  return toBegun(messageId, restarted);
}

function toBegun(messageId: string, { view, messageSeq }: Pick<ClaimedRun, 'view' | 'messageSeq'>): BegunStep | null {
  return view === null || messageSeq === null ? null : { messageId, messageSeq, view };
}

async function endCancelled(deps: StepDeps, scope: JobScope): Promise<void> {
  const outcome = { finishReason: 'aborted', toolCalls: 0, result: { kind: 'answered' } } as const;
  await endStep(deps, scope, { messageId: null, usage: NO_USAGE, steps: 0, events: [], outcome });
}
