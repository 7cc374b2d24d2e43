import { canMoveIn, isTerminalIn, type Transitions } from './state-machine.ts';

/**
 * ```mermaid
 * stateDiagram-v2
 *   [*] --> running
 *   running --> completed: the summary was accepted
 *   running --> rejected: it did not make the view smaller, or failed its validation
 *   running --> failed: no summary came, or its worker died
 * ```
 */
export const COMPACTION_STATES = ['running', 'completed', 'rejected', 'failed'] as const;

export type CompactionState = (typeof COMPACTION_STATES)[number];

export const COMPACTION_TRANSITIONS: Transitions<CompactionState> = {
  running: ['completed', 'rejected', 'failed'],
  completed: [],
  rejected: [],
  failed: [],
};

export const isTerminalCompaction = (state: CompactionState): boolean => isTerminalIn(COMPACTION_TRANSITIONS, state);
export const canMoveCompaction = (from: CompactionState, to: CompactionState): boolean =>
  canMoveIn(COMPACTION_TRANSITIONS, from, to);
