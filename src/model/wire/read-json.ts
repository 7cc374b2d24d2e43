/** A parsed object of the wire. */
export type Fields = Record<string, unknown>;

export const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

type Source = Readonly<{ source?: string }>;
type RawJson = Readonly<{ rawJSON: (text: string) => unknown }>;

const toRaw = (JSON as unknown as RawJson).rawJSON;

/** Keeps the digits of every number as they were written: it goes into the text of a call's arguments. */
function keepDigits(this: unknown, _key: string, value: unknown, context?: Source): unknown {
  const source = context?.source;
  return typeof value === 'number' && source !== undefined && String(value) !== source ? toRaw(source) : value;
}

/** The value of a JSON text with all digits, for `JSON.stringify` alone. Undefined: no JSON. */
export function readExactly(text: string): unknown {
  try {
    return JSON.parse(text, keepDigits);
  } catch {
    return undefined;
  }
}

/** The value of a JSON text. Undefined: no JSON. */
export function readJsonText(text: string): unknown {
  try {
    return JSON.parse(text.startsWith('\uFEFF') ? text.slice(1) : text);
  } catch {
    return undefined;
  }
}
