import type { ViewMessage } from '../transcript/message.ts';

/** So many steps in a row that did the same and got the same: the model will not find out of it. */
export const DOOM_LOOP_STEPS = 5;

/**
 * Whether the newest steps of a view were all the same: the same calls with the same inputs and the same outcomes, and
 * no word of the user in between. Waiting for something by the same call is no loop as long as its outcome changes.
 */
export function isDoomLoop(view: readonly ViewMessage[], steps: number = DOOM_LOOP_STEPS): boolean {
  const newest = view.slice(-steps);
  if (newest.length < steps) return false;
  const [first, ...others] = newest.map(signatureOf);
  return first !== undefined && first !== null && others.every((other) => other === first);
}

/** What a step did and got; null for anything but a step with calls. */
function signatureOf({ role, parts }: ViewMessage): string | null {
  if (role !== 'assistant') return null;
  const calls = parts.flatMap((part) =>
    part.type === 'tool' ? [[part.toolName, part.input, part.state, part.output ?? null]] : [],
  );
  // An output that was cut names itself by a number of its own.
  return calls.length === 0 ? null : JSON.stringify(calls, sortKeys).replaceAll(OUTPUT_REF, 'out');
}

const OUTPUT_REF = /\bout_\d+_\d+\b/g;

/** The store gives keys back in another order than a model does. */
function sortKeys(_key: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}
