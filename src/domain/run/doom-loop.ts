import type { ViewMessage } from '../transcript/message.ts';
import { NOT_RUN } from './settlement.ts';

/** So many equal steps in a row are a doom loop, which ends the run. */
export const DOOM_LOOP_STEPS = 5;

/**
 * Whether the newest steps have the same calls, inputs and outcomes, with no user message between them. A call that
 * waits for a change is no loop as long as its outcome differs.
 */
export function isDoomLoop(view: readonly ViewMessage[], steps: number = DOOM_LOOP_STEPS): boolean {
  const newest = view.slice(-steps);
  if (newest.length < steps) return false;
  const [first, ...others] = newest.map(signatureOf);
  return first !== undefined && first !== null && others.every((other) => other === first);
}

/** So many answers in a row that were cut off within their calls end the run: the next one would be as long. */
export const CUT_OFF_STEPS = 3;

/** Whether none of the newest answers came to the end of its calls, with no user message between them. */
export function isCutOffLoop(view: readonly ViewMessage[], steps: number = CUT_OFF_STEPS): boolean {
  const newest = view.slice(-steps);
  return newest.length === steps && newest.every(isCutOff);
}

const isCutOff = ({ role, parts }: ViewMessage): boolean =>
  role === 'assistant' &&
  parts.some((part) => part.type === 'tool' && part.output?.type === 'error-text' && part.output.value === NOT_RUN);

/** The calls and outcomes of a step; null: not a step with calls. */
function signatureOf({ role, parts }: ViewMessage): string | null {
  if (role !== 'assistant') return null;
  const calls = parts.flatMap((part) =>
    part.type === 'tool' ? [[part.toolName, part.input, part.state, part.output ?? null]] : [],
  );
  // A cut output names itself by an id of its own.
  return calls.length === 0 ? null : JSON.stringify(calls, sortKeys).replaceAll(OUTPUT_REF, 'out');
}

const OUTPUT_REF = /\bout_\d+_\d+\b/g;

/** Postgres returns keys in another order than the model. */
function sortKeys(_key: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}
