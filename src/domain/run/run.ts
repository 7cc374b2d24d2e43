import { isTerminalIn, type Transitions } from '../state-machine.ts';

/** ARCHITECTURE.md shows them with their transitions. */
export const RUN_STATUSES = [
  'queued',
  'running',
  'requires_action',
  'cancelling',
  'completed',
  'failed',
  'cancelled',
  'incomplete',
] as const;

export type RunStatus = (typeof RUN_STATUSES)[number];

/** The trigger `runs_refuse_transition` enforces it; a test compares the two. */
export const RUN_TRANSITIONS: Transitions<RunStatus> = {
  queued: ['running', 'cancelling', 'cancelled', 'failed', 'incomplete'],
  running: ['queued', 'requires_action', 'cancelling', 'cancelled', 'completed', 'failed', 'incomplete'],
  requires_action: ['running', 'cancelled'],
  cancelling: ['cancelled', 'completed', 'failed'],
  completed: [],
  failed: ['queued'],
  cancelled: [],
  incomplete: [],
};

/** The limits that end a run which could have gone on. Each allows a final answer. */
export const LIMIT_REASONS = ['max_steps', 'budget', 'deadline', 'doom_loop'] as const;
export type LimitReason = (typeof LIMIT_REASONS)[number];

export const INCOMPLETE_REASONS = [...LIMIT_REASONS, 'context_exhausted', 'output_invalid'] as const;
export type IncompleteReason = (typeof INCOMPLETE_REASONS)[number];

/** Why a run goes on with the next model of its agent. */
export const SWITCH_REASONS = ['timeout', 'overloaded', 'transport', 'rate_limited', 'quota', 'empty_answer'] as const;
export type SwitchReason = (typeof SWITCH_REASONS)[number];

export const RUN_KINDS = ['task', 'maintenance'] as const;
export type RunKind = (typeof RUN_KINDS)[number];

/** What sends messages in place of a caller. */
export const MESSAGE_SENDERS = ['schedule', 'hook'] as const;
export type MessageSender = (typeof MESSAGE_SENDERS)[number];

/**
 * What began a run. `notice`: the service told a session that a child in the background has ended. `resume`: nobody sent
 * a message.
 */
export const RUN_TRIGGERS = ['message', ...MESSAGE_SENDERS, 'parent', 'notice', 'resume', 'maintenance'] as const;
export type RunTrigger = (typeof RUN_TRIGGERS)[number];

/** The values of `runs.pending_kind`. */
export const PENDING_KINDS = ['step', 'compaction', 'prune'] as const;
export type PendingKind = (typeof PENDING_KINDS)[number];

/** True: the run has ended. A `failed` one may still be queued again by an operator who retries its job. */
export const isTerminalRun = (status: RunStatus): boolean =>
  status === 'failed' || isTerminalIn(RUN_TRANSITIONS, status);

/** A session has at most one run with one of these statuses. */
export const ACTIVE_RUN_STATUSES: readonly RunStatus[] = RUN_STATUSES.filter((status) => !isTerminalRun(status));

/**
 * The status that callers are told. A call of a child that has expired or was cancelled asks for nothing more, a moment
 * before the run at the root hears of it: in that moment nobody has to act on the root.
 * @param actions calls of the run, and of the runs below it, that ask for something
 */
export const toldStatus = (status: RunStatus, actions: number): RunStatus =>
  status === 'requires_action' && actions === 0 ? 'running' : status;
