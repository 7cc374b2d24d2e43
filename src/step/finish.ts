import { enqueueNext } from '../claims/enqueue-next.ts';
import { finishClaim } from '../claims/finish-claim.ts';
import { durationMs, type JobScope, logFields, type NextClaim } from '../claims/job-scope.ts';
import type { ContextState } from '../domain/context/meter/state.ts';
import { formatId } from '../domain/ids.ts';
import type { Branch, NextPlan } from '../domain/run/branch.ts';
import { limitReached } from '../domain/run/budget.ts';
import type { NewEvent } from '../domain/run/events.ts';
import { planNext, type StepOutcome, type StepResult } from '../domain/run/next-step.ts';
import { NO_USAGE, type Usage } from '../domain/usage.ts';
import type { CallMove, FinishedStep, KeptAnswer, ResponseWrite, StepFinish } from '../store/work/step-writes.ts';
import type { StepDeps } from './deps.ts';

export type StepEnding = Readonly<{
  /** The step's assistant message. Null: the step ends without one. */
  messageId: string | null;
  response?: ResponseWrite;
  /** Set if the response is in the transcript already: its parts that stay open calls. */
  written?: Readonly<{ open: readonly number[] }>;
  /** Set if the response is dropped for another attempt. */
  keptIfCancelled?: KeptAnswer;
  /** Call outcomes that are not committed yet. */
  moves?: readonly CallMove[];
  usage: Usage;
  /** US dollars of the model call, 0 by default. Null: the model's prices are unknown. */
  costUsd?: number | null;
  contextState?: ContextState;
  /** Set if the view is worth a prune: when the run ends here, a maintenance run follows. */
  maintenanceAtEnd?: 'prune';
  /** 1: the step counts towards `maxSteps`. */
  steps: 0 | 1;
  /** Of the model call, unless another worker made it. */
  timing?: Readonly<{ firstTokenMs: number | null }>;
  /** Set if calls that require an action have begun work elsewhere: stops that work. */
  stopElsewhere?: () => Promise<void>;
  /** The step waited for required actions. It was counted and billed when the wait began. */
  isPaid?: true;
  events: readonly NewEvent[];
  outcome: Omit<StepOutcome, 'runId' | 'stepNo' | 'stepsBefore' | 'maxSteps' | 'givesFinalAnswer' | 'finalAnswerFor'>;
}>;

/**
 * Ends the step and plans the next work in one fenced transaction. Then the worker goes on with the next step, which the
 * same transaction began, or enqueues next (else the reconciler does).
 */
export async function endStep(
  deps: StepDeps,
  scope: JobScope,
  ending: StepEnding,
): Promise<'run-goes-on' | 'run-ended' | 'fenced'> {
  const { finishReason, toolCalls, result } = ending.outcome;
  const isPaid = ending.isPaid === true;
  const next = planNext({
    ...ending.outcome,
    runId: scope.runId,
    stepNo: scope.stepNo,
    stepsBefore: scope.stepsBefore - (isPaid ? ending.steps : 0),
    maxSteps: scope.maxSteps,
    givesFinalAnswer: scope.agent.limits.finalAnswer === true,
    ...(scope.finalAnswerFor !== null && { finalAnswerFor: scope.finalAnswerFor }),
    ...(ending.stopElsewhere !== undefined && { hasWorkOutside: true as const }),
    ...limitOf(scope, ending),
  });
  await stopUnlessWaiting(next, ending);
  const events = [...ending.events, ...completedEvents(deps, scope, ending)];
  const finish: StepFinish = {
    ...(ending.response === undefined ? {} : { response: ending.response }),
    ...(ending.written !== undefined &&
      ending.messageId !== null && { written: { messageId: ending.messageId, ...ending.written } }),
    ...(ending.keptIfCancelled === undefined ? {} : { keptIfCancelled: ending.keptIfCancelled }),
    moves: ending.moves ?? [],
    usage: isPaid ? NO_USAGE : ending.usage,
    costUsd: isPaid || ending.costUsd === undefined ? 0 : ending.costUsd,
    ...(ending.contextState !== undefined && { contextState: ending.contextState }),
    ...(ending.maintenanceAtEnd !== undefined && { maintenanceAtEnd: ending.maintenanceAtEnd }),
    steps: isPaid ? 0 : ending.steps,
    events,
    next,
    nextRunId: deps.newId(),
  };
  using nextClaim = stepBranchOf(next) === null ? null : scope.nextClaim();
  scope.held.lettingGo();
  const finished = await finishOrFind(deps, scope, finish, nextClaim);
  if (!(await enqueueNext(deps, scope, { finished, next, nextClaim }, finish.usage)) || finished === null)
    return 'fenced';
  const { branch } = finished;
  const { kind } = next[branch];
  if (concernsChildren(scope, kind, result)) deps.lookAfterChildren();
  const measured = { finishReason, toolCalls, durationMs: durationMs(scope) };
  deps.log('info', { event: 'step_finished', ...logFields(scope), branch, ...measured });
  if (result.kind === 'asks' && kind === 'wait') {
    deps.log('info', { event: 'run_waits', ...logFields(scope), calls: result.calls.length });
  }
  return kind === 'end' ? 'run-ended' : 'run-goes-on';
}

/** A run whose deadline has passed waits for no answers. */
async function stopUnlessWaiting({ otherwise }: NextPlan, { stopElsewhere }: StepEnding): Promise<void> {
  if (otherwise.kind !== 'wait') await stopElsewhere?.();
}

/** The end of a child, its wait for a person, or a wait for children. A run that ends may have children to stop. */
const concernsChildren = ({ isChild }: JobScope, kind: Branch['kind'], result: StepResult): boolean =>
  (isChild && (kind === 'end' || kind === 'wait')) ||
  (kind === 'wait' && result.kind === 'asks' && (result.children?.size ?? 0) > 0);

async function finishOrFind(
  deps: StepDeps,
  scope: JobScope,
  finish: StepFinish,
  nextClaim: NextClaim | null,
): Promise<FinishedStep | null> {
  const { writes } = deps;
  const { fence } = scope;
  if (nextClaim === null) return finishClaim(deps, scope, () => writes.finish(fence, finish));
  const carrying = { ...finish, carryOn: nextClaim.carryOn };
  return finishClaim(deps, scope, async (isRepeated) => {
    const finished = await writes.finish(fence, carrying);
    const goesOn = stepBranchOf(finish.next);
    if (finished !== null || !isRepeated || goesOn === null) return finished;
    // The earlier try may have ended this step and begun the next one, and only its reply was lost.
    const found = await nextClaim.find(goesOn.no);
    if (found === null) return null;
    const { job, claim } = found;
    return { branch: goesOn.branch, eventSeq: claim.eventSeq, jobs: [job], claimed: claim };
  });
}

/** The branch of the plan, unless the run is cancelled, that goes on with a step, and its number. */
function stepBranchOf(next: NextPlan): Readonly<{ branch: 'otherwise' | 'ifMessagesWait'; no: number }> | null {
  for (const branch of ['otherwise', 'ifMessagesWait'] as const) {
    const planned = next[branch];
    if (planned.kind === 'continue' && planned.pendingKind === 'step') return { branch, no: planned.pendingNo };
  }
  return null;
}

/** The limit that the run reached with this step, set by the outcome or measured here. */
function limitOf(scope: JobScope, ending: StepEnding): Pick<StepOutcome, 'limit'> {
  const { usage, costUsd = 0, outcome } = ending;
  const tokens = usage.inputTokens + usage.outputTokens;
  const spent = ending.isPaid === true ? { tokens: 0, costUsd: 0 } : { tokens, costUsd };
  const limit = outcome.limit ?? limitReached(scope.budget, spent, performance.now() >= scope.deadlineAtMs);
  return limit === null ? {} : { limit };
}

function completedEvents({ workerId }: StepDeps, scope: JobScope, ending: StepEnding): NewEvent[] {
  if (ending.steps === 0 || ending.messageId === null) return [];
  const runId = formatId('run', scope.runId);
  const { finishReason, toolCalls, result } = ending.outcome;
  const step = { runId, step: scope.stepNo, attempt: scope.attempt };
  const messageId = formatId('message', ending.messageId);
  const paid: NewEvent = { type: 'usage:updated', data: { runId, usage: ending.usage } };
  const completed: NewEvent = {
    type: 'step:completed',
    data: {
      ...step,
      messageId,
      finishReason,
      toolCalls,
      usage: ending.usage,
      workerId,
      ...(ending.timing !== undefined && { waitedMs: scope.waitedMs, firstTokenMs: ending.timing.firstTokenMs }),
    },
  };
  return [...(ending.isPaid === true ? [] : [paid]), ...(result.kind === 'asks' ? [] : [completed])];
}
