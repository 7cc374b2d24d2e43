import { isTerminalIn, type Transitions } from '../state-machine.ts';

/**
 * ```mermaid
 * stateDiagram-v2
 *   [*] --> pending: the model's response is durable
 *   [*] --> running: the same, and it starts at once
 *   pending --> awaiting_approval
 *   awaiting_approval --> pending: approved
 *   awaiting_approval --> denied
 *   awaiting_approval --> error: cancelled
 *   pending --> awaiting_output: the client runs it
 *   awaiting_output --> pending: answered, its output is fitted into the view
 *   awaiting_output --> denied
 *   awaiting_output --> error: cancelled
 *   running --> awaiting_output: the tool asks a person for more
 *   unknown --> awaiting_output: repeated, it asks again
 *   pending --> running: committed before the side effect
 *   pending --> completed: a read-only tool, or done by the provider
 *   pending --> error: refused, cancelled or invalid before it started
 *   running --> pending: shut down or cancelled before it started
 *   running --> completed
 *   running --> error
 *   running --> unknown: its worker died
 *   unknown --> running: idempotent, or approved by a person; repeated with the same call key
 *   unknown --> completed: its output was given
 *   unknown --> error: reported to the model
 * ```
 */
export const TOOL_CALL_STATES = [
  'pending',
  'awaiting_approval',
  'awaiting_output',
  'running',
  'completed',
  'error',
  'denied',
  'unknown',
] as const;

export type ToolCallState = (typeof TOOL_CALL_STATES)[number];

export const TOOL_CALL_TRANSITIONS: Transitions<ToolCallState> = {
  pending: ['awaiting_approval', 'awaiting_output', 'running', 'completed', 'error'],
  awaiting_approval: ['pending', 'denied', 'error'],
  awaiting_output: ['pending', 'denied', 'error'],
  running: ['pending', 'awaiting_output', 'completed', 'error', 'unknown'],
  completed: [],
  error: [],
  denied: [],
  unknown: ['running', 'awaiting_output', 'completed', 'error'],
};

/** True: the call has an outcome that the model can be shown. */
export const isSettledCall = (state: ToolCallState): boolean => isTerminalIn(TOOL_CALL_TRANSITIONS, state);
