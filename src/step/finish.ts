import { enqueueNext } from '../claims/enqueue-next.ts';
import { durationMs, type JobScope, logFields } from '../claims/job-scope.ts';
import { retryWhileStoreUnavailable } from '../claims/retry-while-store-unavailable.ts';
import type { ContextState } from '../domain/context/meter/state.ts';
import { formatId } from '../domain/ids.ts';
import { limitReached } from '../domain/run/budget.ts';
import type { NewEvent } from '../domain/run/events.ts';
import { planNext, type StepOutcome } from '../domain/run/next-step.ts';
import { NO_USAGE, type Usage } from '../domain/usage.ts';
import {
  type CallMove,
  finishStep,
  type KeptAnswer,
  type ResponseWrite,
  type StepFinish,
} from '../store/step-writes.ts';
import type { StepDeps } from './deps.ts';

export type StepEnding = Readonly<{
  /** The step's assistant message. Null: the step ends without one. */
  messageId: string | null;
  response?: ResponseWrite;
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
  /** The step waited for required actions. It was counted and billed when the wait began. */
  isPaid?: true;
  events: readonly NewEvent[];
  outcome: Omit<StepOutcome, 'runId' | 'stepNo' | 'stepsBefore' | 'maxSteps' | 'givesFinalAnswer' | 'finalAnswerFor'>;
}>;

/** Ends the step and plans the next work in one fenced transaction, then enqueues next (else the reconciler does). */
export async function endStep(
  deps: StepDeps,
  scope: JobScope,
  ending: StepEnding,
): Promise<'run-goes-on' | 'run-ended' | 'fenced'> {
  const { finishReason, toolCalls, asks } = ending.outcome;
  const isPaid = ending.isPaid === true;
  const next = planNext({
    ...ending.outcome,
    runId: scope.runId,
    stepNo: scope.stepNo,
    stepsBefore: scope.stepsBefore - (isPaid ? ending.steps : 0),
    maxSteps: scope.maxSteps,
    givesFinalAnswer: scope.agent.limits.finalAnswer === true,
    ...(scope.finalAnswerFor !== null && { finalAnswerFor: scope.finalAnswerFor }),
    ...limitOf(scope, ending),
  });
  const events = [...ending.events, ...completedEvents(scope, ending)];
  const finish: StepFinish = {
    ...(ending.response === undefined ? {} : { response: ending.response }),
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
  scope.held.lettingGo();
  const finished = await retryWhileStoreUnavailable(scope.held, () => finishStep(deps.db, scope.fence, finish));
  if (!(await enqueueNext(deps, scope, finished, next, finish.usage)) || finished === null) return 'fenced';
  const { branch } = finished;
  const measured = { finishReason, toolCalls, durationMs: durationMs(scope) };
  deps.log('info', { event: 'step_finished', ...logFields(scope), branch, ...measured });
  if ('waitMs' in next[branch]) {
    deps.log('info', { event: 'run_waits', ...logFields(scope), calls: asks?.calls.length ?? 0 });
  }
  return 'status' in next[branch] ? 'run-ended' : 'run-goes-on';
}

/** The limit that the run reached with this step, set by the outcome or measured here. */
function limitOf(scope: JobScope, ending: StepEnding): Pick<StepOutcome, 'limit'> {
  const { usage, costUsd = 0, outcome } = ending;
  const tokens = usage.inputTokens + usage.outputTokens;
  const spent = ending.isPaid === true ? { tokens: 0, costUsd: 0 } : { tokens, costUsd };
  const limit = outcome.limit ?? limitReached(scope.budget, spent, performance.now() >= scope.deadlineAtMs);
  return limit === null ? {} : { limit };
}

function completedEvents(scope: JobScope, ending: StepEnding): NewEvent[] {
  if (ending.steps === 0 || ending.messageId === null) return [];
  const runId = formatId('run', scope.runId);
  const { finishReason, toolCalls } = ending.outcome;
  const step = { runId, step: scope.stepNo, attempt: scope.attempt };
  const messageId = formatId('message', ending.messageId);
  const paid: NewEvent = { type: 'usage:updated', data: { runId, usage: ending.usage } };
  const completed: NewEvent = {
    type: 'step:completed',
    data: { ...step, messageId, finishReason, toolCalls, usage: ending.usage },
  };
  return [...(ending.isPaid === true ? [] : [paid]), ...(ending.outcome.asks === undefined ? [completed] : [])];
}
