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

/** What the branch makes of a call of the step's message. */
type CallChange = CallResolution & Readonly<{ messageId: string; index: number; requiredAction?: ActionKind }>;

/**
 * What becomes of the run: it goes on with `pendingKind`, it waits until its calls are answered (nobody works on it
 * meanwhile), or it ends with `status`.
 */
export type Branch = Readonly<
  | {
      pendingKind: PendingKind;
      pendingNo: number;
      /** Set for another attempt at the same step, after this pause. */
      retryDelayMs?: number;
      /** Set where the step was not begun: it is after this pause, and no attempt is counted. */
      postponeMs?: number;
      /** Set where the run has reached a limit: the step is its final answer, for which it has so long. */
      finalAnswer?: Readonly<{ for: LimitReason; withinMs: number }>;
      /** Calls that were to be asked about. */
      calls?: readonly CallChange[];
      events: readonly NewEvent[];
    }
  | {
      /** The longest wait in milliseconds; null where it may last for ever. */
      waitMs: number | null;
      calls: readonly CallChange[];
      events: readonly NewEvent[];
    }
  | {
      status: Extract<RunStatus, 'completed' | 'failed' | 'cancelled' | 'incomplete'>;
      reason?: IncompleteReason;
      error?: ErrorRecord;
      /** Messages which still wait get a run of their own at once; without it they stay parked. */
      takesUpWaiting?: true;
      /** Calls that were to be asked about. */
      calls?: readonly CallChange[];
      events: readonly NewEvent[];
    }
>;

type EndBranch = Extract<Branch, { status: unknown }>;
type DecidedBranch = Exclude<Branch, { waitMs: unknown }>;

/**
 * The end of a step as a plan. Whether a cancel was requested and whether messages wait is known only
 * under the session's lock, so all three answers are worked out before, and the transaction picks one:
 * cancel first, then messages.
 */
export type NextPlan = Readonly<{ ifCancelled: Branch; ifMessagesWait: Branch; otherwise: Branch }>;

/** A provider may not be asked now: the pause, and what readers are told of it. */
export type Postponement = Readonly<{ delayMs: number; attempt: number; error: ErrorRecord }>;

/** How a step ended: all that decides what follows it, but for what is known only under the session's lock. */
export type StepOutcome = Readonly<{
  runId: string;
  stepNo: number;
  /** Steps of the run before this one. */
  stepsBefore: number;
  maxSteps: number;
  /** The other limit that the run has reached: it ends, unless this step was its answer. */
  limit?: Exclude<LimitReason, 'max_steps'>;
  /** The agent gives a final answer when a limit ends its run. */
  givesFinalAnswer?: boolean;
  /** Set where this step was that answer: `limit` is then the time that it had. */
  finalAnswerFor?: LimitReason;
  finishReason: FinishReason;
  /** Calls the model made in this step, whatever became of them. */
  toolCalls: number;
  /** Set when the model call failed. */
  error?: ErrorRecord;
  /** What the view needs before the next step, should the run go on. */
  before?: Extract<PendingKind, 'compaction' | 'prune'>;
  /** Set when the step was not taken: what is done first, before the same step begins again. */
  retryAfter?: PendingKind;
  /** Set when the context cannot be made to fit. */
  exhausted?: ErrorRecord;
  /** The answer was cut off for want of room in the window: the run goes on although no tool was called. */
  isUnfinished?: boolean;
  /** Set where the provider may not be asked now: the same step later. */
  postponed?: Postponement;
  /** Calls that somebody has to say something about before the step can end. */
  asks?: Readonly<{ messageId: string; calls: readonly CallRequiringAction[]; waitMs: number | null }>;
  /** Set when the failed call is to be tried again. */
  retry?: Readonly<{ delayMs: number; attempt: number }>;
}>;

/**
 * Decides what follows a step.
 *
 * The run goes on when the model called tools, whatever the provider calls its finish reason: some say `stop` although
 * they called tools. A limit ends it as `incomplete`, after a final answer where its agent gives one; a message that
 * still waits then gets a run of its own. After a failure or a cancel waiting messages stay parked: the next message
 * takes them along. One that was sent after the cancel is such a next message.
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

/** The same whether messages wait or not. */
function unlessCancelled(runId: string, branch: Branch): NextPlan {
  return { ifCancelled: cancelledBranch(runId), ifMessagesWait: branch, otherwise: branch };
}

/**
 * The run ends for its limit, whatever became of its final answer: there is never another step. The same step is taken
 * again where a call to the model failed that may succeed yet, or the view has to be made to fit, as long as its time
 * is not up. What waits was not heard by it and gets a run of its own.
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

/** The model was asked and has answered, or was stopped while it did. */
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

/**
 * The run waits until every call is answered: messages too, as no model is asked before. Any other limit than the
 * deadline counts when the step ends.
 */
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

/** The same later, without an attempt: of a step, or of what the view needs before it. */
export function postponedBranch(
  runId: string,
  pendingKind: PendingKind,
  step: number,
  { delayMs, ...told }: Postponement,
): Branch {
  return { pendingKind, pendingNo: step, postponeMs: delayMs, events: [retryingEvent({ runId, step, ...told })] };
}

/** Stands for a time that is known only when the branch is written, and is put into its last event there. */
const KNOWN_WHEN_WRITTEN = '1970-01-01T00:00:00.000Z';

function retryingEvent(data: Readonly<{ runId: string; step: number; attempt: number; error: ErrorRecord }>): NewEvent {
  return { type: 'step:retrying', data: { ...data, nextAttemptAt: KNOWN_WHEN_WRITTEN } };
}

/** A call that failed is tried again, where that may help and the run has not reached a limit meanwhile. */
function branchAfterError(runId: string, outcome: StepOutcome, error: ErrorRecord): Branch {
  const { stepNo, retry, limit } = outcome;
  if (retry === undefined) return failedBranch(runId, error);
  return limit === undefined ? retryBranch(runId, stepNo, error, retry) : atLimit(runId, outcome, limit);
}

/** The run may do no more, but for its final answer: one step without tools, where its agent gives one. */
function atLimit(runId: string, { stepNo, givesFinalAnswer }: StepOutcome, reason: LimitReason): DecidedBranch {
  if (givesFinalAnswer !== true) return stoppedBranch(runId, reason);
  const finalAnswer = { for: reason, withinMs: FINAL_ANSWER_WITHIN_MS };
  return { pendingKind: 'step', pendingNo: stepNo + 1, finalAnswer, events: [] };
}

/** A message that still waits gets a run of its own, with limits of its own. */
function stoppedBranch(runId: string, reason: IncompleteReason): EndBranch {
  return {
    status: 'incomplete',
    reason,
    takesUpWaiting: true,
    events: [{ type: 'run:incomplete', data: { runId, reason } }],
  };
}

/** What still ran after the request is known only under the lock, and put into its last event there. */
export function cancelledBranch(runId: string): EndBranch {
  return { status: 'cancelled', events: [{ type: 'run:cancelled', data: { runId, stillRan: [] } }] };
}

/**
 * The context fits no more: the run ends and says what is too large. Waiting messages stay parked.
 * @param finalAnswerFor the limit that the run ends for anyway, where only its final answer did not fit
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
