import { canMoveIn, isTerminalIn, type Transitions } from '../state-machine.ts';

/**
 * ```mermaid
 * stateDiagram-v2
 *   [*] --> queued
 *   queued --> running: claimed
 *   running --> queued: handed back or recovered
 *   running --> requires_action: a call waits for a person or a client
 *   requires_action --> running: every call is answered
 *   queued --> cancelled: cancelled before a worker had it
 *   running --> cancelling: cancel requested
 *   requires_action --> cancelled: no worker has it
 *   queued --> cancelling: cancelled, and a worker must settle its interrupted step
 *   cancelling --> cancelled
 *   cancelling --> completed: the last answer was already there
 *   running --> cancelled: cancelled between two steps, while no worker has it
 *   running --> completed
 *   running --> failed
 *   running --> incomplete: a limit ended it
 *   cancelling --> failed: it cost too many workers
 *   failed --> queued: an operator retries its job
 * ```
 */
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

export const RUN_TRANSITIONS: Transitions<RunStatus> = {
  queued: ['running', 'cancelling', 'cancelled'],
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

export const INCOMPLETE_REASONS = [...LIMIT_REASONS, 'context_exhausted'] as const;
export type IncompleteReason = (typeof INCOMPLETE_REASONS)[number];

export const RUN_KINDS = ['task', 'maintenance'] as const;
export type RunKind = (typeof RUN_KINDS)[number];

/** The values of `runs.pending_kind`. */
export const PENDING_KINDS = ['step', 'compaction', 'prune'] as const;
export type PendingKind = (typeof PENDING_KINDS)[number];

/** True: the run has ended. A `failed` one may still be queued again by an operator who retries its job. */
export const isTerminalRun = (status: RunStatus): boolean =>
  status === 'failed' || isTerminalIn(RUN_TRANSITIONS, status);
export const canMoveRun = (from: RunStatus, to: RunStatus): boolean => canMoveIn(RUN_TRANSITIONS, from, to);

/** A session has at most one run with one of these statuses. */
export const ACTIVE_RUN_STATUSES: readonly RunStatus[] = RUN_STATUSES.filter((status) => !isTerminalRun(status));
