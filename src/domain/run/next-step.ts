import type { ErrorRecord } from '../errors.ts';
import { formatId } from '../ids.ts';
import type { FinishReason } from '../transcript/message.ts';
import {
  type ActionKind,
  type CallRequiringAction,
  type CallResolution,
  closeCall,
  toRequiredAction,
  WAITING_STATES,
} from '../transcript/required-action.ts';
import { FINAL_ANSWER_WITHIN_MS } from '../tunables.ts';
import { callResultEvent } from './call-events.ts';
import type { NewEvent } from './events.ts';
import type { IncompleteReason, LimitReason, PendingKind, RunStatus } from './run.ts';
import { CANCELLED_BEFORE_START } from './settlement.ts';

/** The branch's change to a call of the step's message. */
type CallChange = CallResolution & Readonly<{ messageId: string; index: number; requiredAction?: ActionKind }>;

/** The run goes on with `pendingKind`, waits for required actions without a worker, or ends with `status`. */
export type Branch = Readonly<
  | {
      pendingKind: PendingKind;
      pendingNo: number;
      /** The pause before another attempt at the same step. */
      retryDelayMs?: number;
      /** The pause before a step that was not begun. No attempt is counted. */
      postponeMs?: number;
      /** The step is the final answer after this limit, with so much time. */
      finalAnswer?: Readonly<{ for: LimitReason; withinMs: number }>;
      /** Calls that were to require an action, with their outcome. */
      calls?: readonly CallChange[];
      events: readonly NewEvent[];
    }
  | {
      /** The longest wait in milliseconds; null: no limit. */
      waitMs: number | null;
      calls: readonly CallChange[];
      events: readonly NewEvent[];
    }
  | {
      status: Extract<RunStatus, 'completed' | 'failed' | 'cancelled' | 'incomplete'>;
      reason?: IncompleteReason;
      error?: ErrorRecord;
      /** Queued messages get a run of their own at once. Without it they stay parked. */
      takesUpWaiting?: true;
      calls?: readonly CallChange[];
      events: readonly NewEvent[];
    }
>;

type EndBranch = Extract<Branch, { status: unknown }>;
type DecidedBranch = Exclude<Branch, { waitMs: unknown }>;

/**
 * The plan for the end of a step: a branch for a cancel, one for queued messages, one for neither, in this order. The
 * transaction takes one of them, because only the session's lock tells which holds.
 */
export type NextPlan = Readonly<{ ifCancelled: Branch; ifMessagesWait: Branch; otherwise: Branch }>;

/** The provider may not be asked for `delayMs`. Readers are told attempt and error. */
export type Postponement = Readonly<{ delayMs: number; attempt: number; error: ErrorRecord }>;

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
  /** Set if the model call failed. */
  error?: ErrorRecord;
  /** Work that the view needs before the next step. */
  before?: Extract<PendingKind, 'compaction' | 'prune'>;
  /** Set if the step was not taken: this work comes first, then the same step again. */
  retryAfter?: PendingKind;
  /** Set if the context cannot be made to fit. */
  exhausted?: ErrorRecord;
  /** The answer was cut off by a full window: the run goes on even without a tool call. */
  isUnfinished?: boolean;
  /** Set if the provider may not be asked now: the same step follows later. */
  postponed?: Postponement;
  /** Calls that require an action before the step can end. */
  asks?: Readonly<{ messageId: string; calls: readonly CallRequiringAction[]; waitMs: number | null }>;
  /** Set if the failed model call is to be repeated. */
  retry?: Readonly<{ delayMs: number; attempt: number }>;
}>;

/**
 * Plans the work after a step. Tool calls continue the run, not the finish reason: some providers say `stop` although
 * the model called tools.
 *
 * A limit ends the run as `incomplete`, after a final answer if its agent gives one; queued messages then get a run of
 * their own. After a failure or a cancel they stay parked until the next message, which may be one that was sent after
 * the cancel.
 */
export function planNext(outcome: StepOutcome): NextPlan {
  const runId = formatId('run', outcome.runId);
  if (outcome.finalAnswerFor !== undefined) return planAfterFinalAnswer(runId, outcome, outcome.finalAnswerFor);
  if (outcome.error !== undefined) {
    return unlessCancelled(runId, branchAfterError(runId, outcome, outcome.error));
  }
  if (outcome.exhausted !== undefined) return exhaustedPlan(runId, outcome.exhausted);
  if (outcome.postponed !== undefined) {
    return unlessCancelled(runId, postponedBranch(runId, 'step', outcome.stepNo, outcome.postponed));
  }
  if (outcome.retryAfter !== undefined) {
    return unlessCancelled(runId, { pendingKind: outcome.retryAfter, pendingNo: outcome.stepNo, events: [] });
  }
  if (outcome.asks !== undefined) return planWait(runId, outcome, outcome.asks);
  return planAnswered(runId, outcome);
}

/** The same branch with and without queued messages. */
function unlessCancelled(runId: string, branch: Branch): NextPlan {
  return { ifCancelled: cancelledBranch(runId), ifMessagesWait: branch, otherwise: branch };
}

/**
 * The run ends for its limit, whether or not its final answer succeeded, and queued messages get a run of their own.
 * While there is time, the same step is repeated after a failure that is worth a retry, or once the view fits.
 */
function planAfterFinalAnswer(runId: string, outcome: StepOutcome, reason: LimitReason): NextPlan {
  const again = outcome.limit === undefined ? sameStep(runId, outcome) : null;
  return unlessCancelled(runId, again ?? stoppedBranch(runId, reason));
}

function sameStep(
  runId: string,
  { stepNo, error, retry, exhausted, postponed, retryAfter }: StepOutcome,
): Branch | null {
  if (error !== undefined) return retry === undefined ? null : retryBranch(runId, stepNo, error, retry);
  if (exhausted !== undefined) return null;
  if (postponed !== undefined) return postponedBranch(runId, 'step', stepNo, postponed);
  return retryAfter === undefined ? null : { pendingKind: retryAfter, pendingNo: stepNo, events: [] };
}

/** The model has answered, or was stopped while it did. */
function planAnswered(runId: string, outcome: StepOutcome): NextPlan {
  const answered = outcome.toolCalls === 0 && outcome.finishReason !== 'aborted' && outcome.isUnfinished !== true;
  const limit = outcome.limit ?? (outcome.stepsBefore + 1 >= outcome.maxSteps ? 'max_steps' : undefined);
  const goOn: Branch = { pendingKind: outcome.before ?? 'step', pendingNo: outcome.stepNo + 1, events: [] };
  const stopped: Branch = limit === undefined ? goOn : atLimit(runId, outcome, limit);
  const completed: Branch = {
    status: 'completed',
    takesUpWaiting: true,
    events: [{ type: 'run:completed', data: { runId, finishReason: outcome.finishReason } }],
  };
  return {
    ifCancelled: answered
      ? {
          status: 'completed',
          events: [{ type: 'run:completed', data: { runId, finishReason: outcome.finishReason, lateCancel: true } }],
        }
      : cancelledBranch(runId),
    ifMessagesWait: limit === undefined ? goOn : answered ? completed : stopped,
    otherwise: answered ? completed : limit === undefined ? goOn : stopped,
  };
}

/** Queued messages wait with the run. Of the limits only the deadline counts here, the others when the step ends. */
function planWait(runId: string, outcome: StepOutcome, { messageId, calls, waitMs }: NonNullable<StepOutcome['asks']>) {
  const closings = calls.map((call) => ({ call, outcome: closeCall(call.part.state, null, CANCELLED_BEFORE_START) }));
  const closed = (branch: DecidedBranch): DecidedBranch => ({
    ...branch,
    calls: closings.map(({ call: { index }, outcome: resolution }) => ({ messageId, index, ...resolution })),
    events: [
      ...closings.map(({ call, outcome: resolution }) => callResultEvent(messageId, call, resolution)),
      ...branch.events,
    ],
  });
  const waiting: Branch = {
    waitMs,
    calls: calls.map(({ index, kind }) => ({ messageId, index, state: WAITING_STATES[kind], requiredAction: kind })),
    events: [
      {
        type: 'run:requires-action',
        data: { runId, calls: calls.map((call) => toRequiredAction(messageId, call)) },
      },
    ],
  };
  const branch = outcome.limit === 'deadline' ? closed(atLimit(runId, outcome, outcome.limit)) : waiting;
  return {
    ifCancelled: closed(cancelledBranch(runId)),
    ifMessagesWait: branch,
    otherwise: branch,
  };
}

/** Postpones a step, or the compaction or prune before it, without counting an attempt. */
export function postponedBranch(
  runId: string,
  pendingKind: PendingKind,
  step: number,
  { delayMs, ...told }: Postponement,
): Branch {
  return { pendingKind, pendingNo: step, postponeMs: delayMs, events: [retryingEvent({ runId, step, ...told })] };
}

/** A placeholder: `baton_take_branch` puts the time into the branch's last event. */
const KNOWN_WHEN_WRITTEN = '1970-01-01T00:00:00.000Z';

function retryingEvent(data: Readonly<{ runId: string; step: number; attempt: number; error: ErrorRecord }>): NewEvent {
  return { type: 'step:retrying', data: { ...data, nextAttemptAt: KNOWN_WHEN_WRITTEN } };
}

/** Repeats a failed model call, if it is worth a retry and the run has not reached a limit. */
function branchAfterError(runId: string, outcome: StepOutcome, error: ErrorRecord): Branch {
  const { stepNo, retry, limit } = outcome;
  if (retry === undefined) return failedBranch(runId, error);
  return limit === undefined ? retryBranch(runId, stepNo, error, retry) : atLimit(runId, outcome, limit);
}

/** The final answer, one step without tools, if the agent gives one; else the end of the run. */
function atLimit(runId: string, { stepNo, givesFinalAnswer }: StepOutcome, reason: LimitReason): DecidedBranch {
  if (givesFinalAnswer !== true) return stoppedBranch(runId, reason);
  const finalAnswer = { for: reason, withinMs: FINAL_ANSWER_WITHIN_MS };
  return { pendingKind: 'step', pendingNo: stepNo + 1, finalAnswer, events: [] };
}

/** A queued message gets a run of its own, with its own limits. */
function stoppedBranch(runId: string, reason: IncompleteReason): EndBranch {
  return {
    status: 'incomplete',
    reason,
    takesUpWaiting: true,
    events: [{ type: 'run:incomplete', data: { runId, reason } }],
  };
}

/** SQL puts the calls that still ran into the last event, under the session's lock. */
export function cancelledBranch(runId: string): EndBranch {
  return { status: 'cancelled', events: [{ type: 'run:cancelled', data: { runId, stillRan: [] } }] };
}

/**
 * The context cannot be made to fit: the run ends and names the cause, and queued messages stay parked.
 * @param finalAnswerFor the limit that ends the run anyway, if only its final answer did not fit
 */
export function exhaustedPlan(runId: string, error: ErrorRecord, finalAnswerFor: LimitReason | null = null): NextPlan {
  if (finalAnswerFor !== null) {
    const ended = stoppedBranch(runId, finalAnswerFor);
    return { ifCancelled: cancelledBranch(runId), ifMessagesWait: ended, otherwise: ended };
  }
  const reason = 'context_exhausted';
  const stopped: Branch = {
    status: 'incomplete',
    reason,
    error,
    events: [{ type: 'run:incomplete', data: { runId, reason, error } }],
  };
  return { ifCancelled: cancelledBranch(runId), ifMessagesWait: stopped, otherwise: stopped };
}

function retryBranch(
  runId: string,
  step: number,
  error: ErrorRecord,
  retry: NonNullable<StepOutcome['retry']>,
): Branch {
  const { attempt, delayMs } = retry;
  const events = [retryingEvent({ runId, step, attempt, error })];
  return { pendingKind: 'step', pendingNo: step, retryDelayMs: delayMs, events };
}

function failedBranch(runId: string, error: ErrorRecord): Branch {
  return { status: 'failed', error, events: [{ type: 'run:failed', data: { runId, error } }] };
}
