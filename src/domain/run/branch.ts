import type { ErrorRecord } from '../errors.ts';
import type { Json } from '../transcript/message.ts';
import type { ActionKind, CallOutcome } from '../transcript/required-action.ts';
import type { ToolCallState } from '../transcript/tool-call.ts';
import type { ChildCall } from './child.ts';
import type { NewEvent } from './events.ts';
import type { OutputState } from './output-format.ts';
import type { IncompleteReason, LimitReason, PendingKind } from './run.ts';

type CallPlace = Readonly<{ messageId: string; index: number }>;
export type OpenedCall = CallPlace & Readonly<{ state: ToolCallState; requiredAction: ActionKind; child?: ChildCall }>;
/** A call that was to require an action, with its outcome. */
type ClosedCall = CallPlace & CallOutcome;

/** The data of `step:retrying` without its time, which `baton_write_branch` adds: it is by the clock of Postgres. */
type RetryingStep = Omit<Extract<NewEvent, { type: 'step:retrying' }>['data'], 'nextAttemptAt'>;

/** One way for a run to go on when a job ends. */
export type Branch = Readonly<
  | ContinueBranch
  /** Takes the failed step again after a pause, as another attempt. */
  | {
      kind: 'retry';
      pendingKind: 'step';
      pendingNo: number;
      delayMs: number;
      retrying: RetryingStep;
      /** Position of the model that is asked from now on. Absent: the same model. */
      modelPosition?: number;
      events: Events;
    }
  /** Puts off work that was not begun. No attempt is counted. */
  | {
      kind: 'postpone';
      pendingKind: PendingKind;
      pendingNo: number;
      delayMs: number;
      retrying: RetryingStep;
      modelPosition?: number;
      events: Events;
    }
  | FinalAnswerBranch
  /** Waits for required actions without a worker. */
  | {
      kind: 'wait';
      /** The longest wait in milliseconds; null: no limit. */
      waitMs: number | null;
      /** Set if it waits for children alone: no person or client has to act. */
      isDelegating?: true;
      calls: readonly OpenedCall[];
      events: Events;
    }
  | SettleBranch
  | EndBranch
>;

export type Events = readonly NewEvent[];
export type ContinueBranch = Readonly<{
  kind: 'continue';
  pendingKind: PendingKind;
  pendingNo: number;
  /** The state of the result from now on. Absent: as before. */
  outputState?: OutputState;
  events: Events;
}>;

/**
 * The run is cancelled while its calls ask, and some have begun work elsewhere: the same step comes again, stops that work,
 * and ends the run.
 */
type SettleBranch = Readonly<{
  kind: 'settle';
  pendingKind: 'step';
  pendingNo: number;
  calls: readonly OpenedCall[];
  events: Events;
}>;

/** The next step is the final answer after `limit`, and has to end within `withinMs`. */
export type FinalAnswerBranch = Readonly<{
  kind: 'final_answer';
  pendingKind: 'step';
  pendingNo: number;
  limit: LimitReason;
  withinMs: number;
  calls?: readonly ClosedCall[];
  events: Events;
}>;

/** `baton_write_branch` adds the event of a cancelled run. */
export type EndBranch = Readonly<{
  kind: 'end';
  calls?: readonly ClosedCall[];
  /** The result that the run was asked for. */
  result?: Readonly<{ value: Json }>;
  events: Events;
}> &
  Readonly<
    | { status: 'completed' | 'cancelled' }
    | { status: 'failed'; error: ErrorRecord }
    | { status: 'incomplete'; reason: IncompleteReason; error?: ErrorRecord }
  >;

/**
 * The plan for the end of a step: a branch for a cancel, one for queued messages, one for neither, in this order. The
 * transaction takes one of them, because only the session's lock tells which holds.
 */
export type NextPlan = Readonly<{ ifCancelled: Branch; ifMessagesWait: Branch; otherwise: Branch }>;
