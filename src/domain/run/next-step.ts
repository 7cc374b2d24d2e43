// One file, because it is one decision: each branch of the plan is read beside the others.
import type { ErrorRecord } from '../errors.ts';
import { formatId } from '../ids.ts';
import type { FinishReason } from '../transcript/message.ts';
import {
  type CallRequiringAction,
  closeCall,
  isAsked,
  toRequiredAction,
  WAITING_STATES,
} from '../transcript/required-action.ts';
import { FINAL_ANSWER_WITHIN_MS } from '../tunables.ts';
import type { Branch, ContinueBranch, EndBranch, Events, FinalAnswerBranch, NextPlan, OpenedCall } from './branch.ts';
import { callResultEvent } from './call-events.ts';
import type { ChildCall } from './child.ts';
import type { NewEvent } from './events.ts';
import { MAX_REPAIRS, NO_OUTPUT_STATE } from './output-format.ts';
import type { OutputVerdict } from './output-verdict.ts';
import type { IncompleteReason, LimitReason, PendingKind, SwitchReason } from './run.ts';
import { type RunOutput, toldOutput } from './run-output.ts';
import { CANCELLED_BEFORE_START } from './settlement.ts';

/** For `delayMs` the provider may not be asked. Readers are told attempt and error. */
export type Postponement = Readonly<{
  delayMs: number;
  attempt: number;
  error: ErrorRecord;
  /** The model that is asked instead. Absent: the same model. */
  next?: NextModel;
}>;

/** The end of a step: all facts for its plan, except those that only the session's lock tells. */
export type StepOutcome = Readonly<{
  runId: string;
  stepNo: number;
  stepsBefore: number;
  maxSteps: number;
  /** A reached limit other than `maxSteps`: the run ends, unless this step was its final answer. */
  limit?: Exclude<LimitReason, 'max_steps'>;
  givesFinalAnswer?: boolean;
  /** Set if this step was the final answer. `limit` then says that its time is up. */
  finalAnswerFor?: LimitReason;
  finishReason: FinishReason;
  /** Calls of the model in this step, with or without an outcome. */
  toolCalls: number;
  /** The answer of the run if it ends with this step. Absent: the step has no whole answer. */
  output?: RunOutput;
  /**
   * Whether the answer is the result that the run was asked for. Absent: the run was asked for none, or goes on anyway.
   */
  verdict?: OutputVerdict;
  /** A call that waits for an answer has begun work on another server, which goes on until a worker stops it. */
  hasWorkOutside?: true;
  result: StepResult;
}>;

/** The model with which a run goes on. */
export type NextModel = Readonly<{ position: number; from: string; to: string; reason: SwitchReason }>;

export type StepResult = Readonly<
  /**
   * The model has answered, was stopped while it did, or was not asked because of a limit or a cancel. `before`: work
   * that the view needs before the next step. `isUnfinished`: a full window cut the answer off, and the run goes on
   * even without a tool call.
   */
  | { kind: 'answered'; before?: Extract<PendingKind, 'compaction' | 'prune'>; isUnfinished?: boolean }
  /** Calls require an action before the step can end. */
  | {
      kind: 'asks';
      messageId: string;
      calls: readonly CallRequiringAction[];
      /** The children by the index of their calls. */
      children?: ReadonlyMap<number, ChildCall>;
      waitMs: number | null;
    }
  /** The model call failed. `retry`: set if it is worth another attempt. */
  | { kind: 'failed'; error: ErrorRecord; retry?: Readonly<{ delayMs: number; attempt: number; next?: NextModel }> }
  /** The step was not taken. The same step comes again after the work of kind `after`. */
  | { kind: 'repeat'; after: PendingKind }
  /** The provider may not be asked now. The same step follows later. */
  | { kind: 'postponed'; postponement: Postponement }
  /** The context cannot be made to fit. */
  | { kind: 'exhausted'; error: ErrorRecord }
>;

type ResultOf<Kind extends StepResult['kind']> = Extract<StepResult, { kind: Kind }>;

/**
 * Plans the work after a step. Tool calls continue the run, not the finish reason: some providers say `stop` although
 * the model called tools.
 *
 * A limit ends the run as `incomplete`, after a final answer if its agent gives one. The SQL function
 * `baton_follow_run_end` decides what follows an end.
 */
export function planNext(outcome: StepOutcome): NextPlan {
  const runId = formatId('run', outcome.runId);
  const { stepNo, result } = outcome;
  if (outcome.finalAnswerFor !== undefined) return planAfterFinalAnswer(runId, outcome, outcome.finalAnswerFor);
  switch (result.kind) {
    case 'answered':
      return planAnswered(runId, outcome, result);
    case 'asks':
      return planWait(runId, outcome, result);
    case 'failed':
      return unlessCancelled(branchAfterError(runId, outcome, result));
    case 'repeat':
      return unlessCancelled(continueWith(result.after, stepNo));
    case 'postponed':
      return unlessCancelled(postponedBranch(runId, 'step', stepNo, result.postponement));
    case 'exhausted':
      return exhaustedPlan(runId, result.error);
  }
}

/** The same branch with and without queued messages. */
function unlessCancelled(branch: Branch): NextPlan {
  return { ifCancelled: CANCELLED, ifMessagesWait: branch, otherwise: branch };
}

export const continueWith = (pendingKind: PendingKind, pendingNo: number): ContinueBranch => ({
  kind: 'continue',
  pendingKind,
  pendingNo,
  events: [],
});

/**
 * The run ends for its limit, whether or not its final answer succeeded, and queued messages get a run of their own.
 * While there is time, the same step is repeated after a failure that is worth a retry, or once the view fits.
 */
function planAfterFinalAnswer(runId: string, outcome: StepOutcome, reason: LimitReason): NextPlan {
  const again = outcome.limit === undefined ? sameStep(runId, outcome) : null;
  return unlessCancelled(again ?? withOutput(stoppedBranch(runId, reason), runId, outcome));
}

function sameStep(runId: string, { stepNo, result }: StepOutcome): Branch | null {
  switch (result.kind) {
    case 'failed':
      return result.retry === undefined ? null : retryBranch(runId, stepNo, result.error, result.retry);
    case 'postponed':
      return postponedBranch(runId, 'step', stepNo, result.postponement);
    case 'repeat':
      return continueWith(result.after, stepNo);
    default:
      return null;
  }
}

function planAnswered(runId: string, outcome: StepOutcome, result: ResultOf<'answered'>): NextPlan {
  const { verdict } = outcome;
  const limit = outcome.limit ?? (outcome.stepsBefore + 1 >= outcome.maxSteps ? 'max_steps' : undefined);
  const next = continueWith(result.before ?? 'step', outcome.stepNo + 1);
  if (verdict?.kind === 'misfits') {
    return unlessCancelled(
      limit === undefined ? repairBranch(runId, outcome, verdict, next) : atLimit(runId, outcome, limit),
    );
  }
  if (verdict?.kind === 'last') {
    const last = { ...next, outputState: { ...verdict.state, isLast: true as const } };
    if (limit !== undefined) return unlessCancelled(atLimit(runId, outcome, limit));
    return { ifCancelled: CANCELLED, ifMessagesWait: next, otherwise: last };
  }
  const isWhole = outcome.toolCalls === 0 && outcome.finishReason !== 'aborted' && result.isUnfinished !== true;
  const answered = isWhole || verdict?.kind === 'fits';
  // The waiting messages ask for more, and for a new result after it.
  const goOn = verdict === undefined ? next : { ...next, outputState: NO_OUTPUT_STATE };
  const stopped: Branch = limit === undefined ? goOn : atLimit(runId, outcome, limit);
  const { finishReason } = outcome;
  const completed = withOutput(completedBranch(runId, { finishReason }), runId, outcome);
  const lateCancel = { finishReason, lateCancel: true } as const;
  return {
    ifCancelled: answered ? withOutput(completedBranch(runId, lateCancel), runId, outcome) : CANCELLED,
    ifMessagesWait: limit === undefined ? goOn : answered ? completed : stopped,
    otherwise: answered ? completed : limit === undefined ? goOn : stopped,
  };
}

/** Asks again for a result that fits, at most twice; then the run ends without one. */
function repairBranch(
  runId: string,
  outcome: StepOutcome,
  { problem, state }: Extract<OutputVerdict, { kind: 'misfits' }>,
  next: ContinueBranch,
): Branch {
  const mayRepair = state.repairs < MAX_REPAIRS;
  const repairs = mayRepair ? state.repairs + 1 : state.repairs;
  const invalid: NewEvent = { type: 'output:invalid', data: { runId, step: outcome.stepNo, problem, repairs } };
  if (mayRepair) return { ...next, outputState: { ...state, repairs, problem }, events: [invalid] };
  const error = { code: 'output_invalid', message: problem } as const;
  const ended = withOutput(stoppedBranch(runId, 'output_invalid', error), runId, outcome);
  return { ...ended, events: [invalid, ...ended.events] };
}

/** Queued messages wait with the run. Only the deadline counts here; the other limits count when the step ends. */
function planWait(runId: string, outcome: StepOutcome, asks: ResultOf<'asks'>): NextPlan {
  const { messageId, calls, children, waitMs } = asks;
  const openQuestions = calls.filter(isAsked);
  const closings = calls.map((call) => ({
    call,
    outcome: closeCall({ state: call.part.state, kind: call.kind }, null, CANCELLED_BEFORE_START),
  }));
  const closed = (branch: EndBranch | FinalAnswerBranch): Branch => ({
    ...branch,
    calls: closings.map(({ call: { index }, outcome: resolution }) => ({ messageId, index, ...resolution })),
    events: [
      ...closings.map(({ call, outcome: resolution }) => callResultEvent(messageId, call, resolution)),
      ...branch.events,
    ],
  });
  const opened = calls.map(({ index, kind }): OpenedCall => {
    const child = children?.get(index);
    return { messageId, index, state: WAITING_STATES[kind], requiredAction: kind, ...(child && { child }) };
  });
  const waiting: Branch = {
    kind: 'wait',
    // A person may be late. A child has limits of its own.
    waitMs: openQuestions.length === 0 ? null : waitMs,
    ...(openQuestions.length === 0 && { isDelegating: true as const }),
    calls: opened,
    events:
      openQuestions.length === 0
        ? []
        : [
            {
              type: 'run:requires-action',
              data: { runId, calls: openQuestions.map((call) => toRequiredAction(messageId, call)) },
            },
          ],
  };
  const branch = outcome.limit === 'deadline' ? closed(atLimit(runId, outcome, outcome.limit)) : waiting;
  const settling = {
    kind: 'settle',
    pendingKind: 'step',
    pendingNo: outcome.stepNo,
    calls: opened,
    events: [],
  } as const;
  return {
    ifCancelled: outcome.hasWorkOutside === true && branch.kind === 'wait' ? settling : closed(CANCELLED),
    ifMessagesWait: branch,
    otherwise: branch,
  };
}

/** Postpones a step, or the compaction or prune before it, without counting an attempt. */
export function postponedBranch(
  runId: string,
  pendingKind: PendingKind,
  step: number,
  { delayMs, next, ...details }: Postponement,
): Branch {
  const retrying = { runId, step, ...details };
  return { kind: 'postpone', pendingKind, pendingNo: step, delayMs, retrying, ...switchTo(next) };
}

/** The model and the event of a branch that may go on with another model. */
function switchTo(next: NextModel | undefined): Readonly<{ modelPosition?: number; events: Events }> {
  if (next === undefined) return { events: [] };
  const { position, ...switched } = next;
  return { modelPosition: position, events: [{ type: 'llm:switched', data: switched }] };
}

/** Repeats a failed model call, if it is worth a retry and the run has not reached a limit. */
function branchAfterError(runId: string, outcome: StepOutcome, { error, retry }: ResultOf<'failed'>): Branch {
  const { stepNo, limit } = outcome;
  if (retry === undefined) return failedBranch(runId, error);
  return limit === undefined ? retryBranch(runId, stepNo, error, retry) : atLimit(runId, outcome, limit);
}

/** The final answer, one step without tools, if the agent gives one; else the end of the run. */
function atLimit(runId: string, outcome: StepOutcome, limit: LimitReason): EndBranch | FinalAnswerBranch {
  const { stepNo, givesFinalAnswer } = outcome;
  if (givesFinalAnswer !== true) return withOutput(stoppedBranch(runId, limit), runId, outcome);
  const withinMs = FINAL_ANSWER_WITHIN_MS;
  return { kind: 'final_answer', pendingKind: 'step', pendingNo: stepNo + 1, limit, withinMs, events: [] };
}

export function completedBranch(
  runId: string,
  data: Readonly<{ finishReason: FinishReason; lateCancel?: true }>,
): EndBranch {
  return { kind: 'end', status: 'completed', events: [{ type: 'run:completed', data: { runId, ...data } }] };
}

/** Tells the answer of the run with its end. */
function withOutput(
  branch: EndBranch,
  runId: string,
  { output, verdict }: Pick<StepOutcome, 'output' | 'verdict'>,
): EndBranch {
  if (output === undefined) return branch;
  const result = verdict?.kind === 'fits' ? { value: verdict.value } : undefined;
  const reported = toldOutput(runId, { ...output, ...result });
  const events = branch.events.map((event): NewEvent => {
    switch (event.type) {
      case 'run:completed':
        return { ...event, data: { ...event.data, output: reported } };
      case 'run:incomplete':
        return { ...event, data: { ...event.data, output: reported } };
      default:
        return event;
    }
  });
  return { ...branch, ...(result !== undefined && { result }), events };
}

/** The run ends before its work is done. @param error the cause, if it is not the limit itself */
export function stoppedBranch(runId: string, reason: IncompleteReason, error?: ErrorRecord): EndBranch {
  const cause = error === undefined ? {} : { error };
  const events: Events = [{ type: 'run:incomplete', data: { runId, reason, ...cause } }];
  return { kind: 'end', status: 'incomplete', reason, ...cause, events };
}

/** Without its event, because only SQL knows under the session's lock which calls still ran. */
export const CANCELLED: EndBranch = { kind: 'end', status: 'cancelled', events: [] };

/**
 * The context cannot be made to fit: the run ends and names the cause, and queued messages stay parked.
 * @param finalAnswerFor the limit that ends the run anyway, if only its final answer did not fit
 */
export function exhaustedPlan(runId: string, error: ErrorRecord, finalAnswerFor: LimitReason | null = null): NextPlan {
  return unlessCancelled(
    finalAnswerFor === null ? stoppedBranch(runId, 'context_exhausted', error) : stoppedBranch(runId, finalAnswerFor),
  );
}

function retryBranch(
  runId: string,
  step: number,
  error: ErrorRecord,
  { attempt, delayMs, next }: NonNullable<ResultOf<'failed'>['retry']>,
): Branch {
  const retrying = { runId, step, attempt, error };
  return { kind: 'retry', pendingKind: 'step', pendingNo: step, delayMs, retrying, ...switchTo(next) };
}

/** The run ends by an error. */
export function failedBranch(runId: string, error: ErrorRecord): EndBranch {
  return { kind: 'end', status: 'failed', error, events: [{ type: 'run:failed', data: { runId, error } }] };
}
