import { canMoveIn, isTerminalIn, type Transitions } from '../state-machine.ts';

/**
 * ```mermaid
 * stateDiagram-v2
 *   [*] --> queued
 *   queued --> running: claimed
 *   running --> queued: handed back, recovered
 *   running --> requires_action: waits for a person or a client
 *   requires_action --> running: nothing is open any more
 *   queued --> cancelled: cancelled before a worker had it
 *   running --> cancelling: cancel requested
 *   requires_action --> cancelled: nobody has it
 *   queued --> cancelling: cancelled, leftovers of a dead worker are settled first
 *   cancelling --> cancelled
 *   cancelling --> completed: the final answer was already there
 *   running --> cancelled: between two steps, nobody has it
 *   running --> completed
 *   running --> failed
 *   running --> incomplete: a limit ended it
 *   cancelling --> failed
 *   failed --> queued: somebody has its job tried again
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

/** The limits that end a run which could have gone on: each leaves room for a final answer. */
export const LIMIT_REASONS = ['max_steps', 'budget', 'deadline', 'doom_loop'] as const;
export type LimitReason = (typeof LIMIT_REASONS)[number];

/** Why a run ended `incomplete`. */
export const INCOMPLETE_REASONS = [...LIMIT_REASONS, 'context_exhausted'] as const;
export type IncompleteReason = (typeof INCOMPLETE_REASONS)[number];

export const RUN_KINDS = ['task', 'maintenance'] as const;
export type RunKind = (typeof RUN_KINDS)[number];

/** What a run waits for a worker to do. */
export const PENDING_KINDS = ['step', 'compaction', 'prune'] as const;
export type PendingKind = (typeof PENDING_KINDS)[number];

/** The run has ended, and nothing but somebody who has its job tried again makes it go on. */
export const isTerminalRun = (status: RunStatus): boolean =>
  status === 'failed' || isTerminalIn(RUN_TRANSITIONS, status);
export const canMoveRun = (from: RunStatus, to: RunStatus): boolean => canMoveIn(RUN_TRANSITIONS, from, to);

/** The statuses that hold the session: at most one run of a session has one of them. */
export const ACTIVE_RUN_STATUSES: readonly RunStatus[] = RUN_STATUSES.filter((status) => !isTerminalRun(status));
