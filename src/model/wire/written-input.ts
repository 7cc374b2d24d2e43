const WRITTEN = 'baton/written';

/**
 * The text of a call's arguments in a form that the SDK's parser leaves as it is. By itself it would round long numbers
 * and move keys, and it would know nothing of arguments that are no object.
 */
export const asWritten = (text: string): string => JSON.stringify({ [WRITTEN]: text });

/** The text in an input that the SDK has parsed. Null: the input did not come by `asWritten`. */
export function writtenOf(input: unknown): string | null {
  if (typeof input !== 'object' || input === null || !(WRITTEN in input)) return null;
  const text = input[WRITTEN];
  return typeof text === 'string' && Object.keys(input).length === 1 ? text : null;
}
