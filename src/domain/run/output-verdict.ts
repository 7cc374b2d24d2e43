import type { Json, Part } from '../transcript/message.ts';
import { outputText } from '../transcript/output-text.ts';
import { type OutputState, RESULT_TOOL } from './output-format.ts';

/** Whether an answer is the result that the run was asked for. */
export type OutputVerdict = Readonly<
  | { kind: 'fits'; value: Json }
  /** @param state before this answer */
  | { kind: 'misfits'; problem: string; state: OutputState }
  /** The work is done, and the next step gives the result: see the mode `last`. */
  | { kind: 'last'; state: OutputState }
>;

/**
 * The verdict on the calls of `final_result` in an answer whose calls have run; null: it has none. Of several that fit
 * the last one counts.
 */
export function verdictOfCalls(parts: readonly Part[], state: OutputState): OutputVerdict | null {
  const calls = parts.flatMap((part) => (part.type === 'tool' && part.toolName === RESULT_TOOL ? [part] : []));
  const fitting = calls.findLast((call) => call.state === 'completed');
  if (fitting !== undefined) return { kind: 'fits', value: fitting.input };
  const [last] = calls.toReversed();
  if (last === undefined) return null;
  const problem = last.output === undefined ? 'The call was not finished.' : outputText(last.output);
  return { kind: 'misfits', problem, state };
}
