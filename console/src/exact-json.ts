/**
 * A number whose digits a JavaScript number would round. It has a prototype of its own, because caches of queries copy
 * plain objects, and a copy of what `JSON.rawJSON` makes is none any more.
 */
type LongNumber = Readonly<{ toJSON: () => unknown }>;

// The browsers have it since 2025, the compiler's library not yet. Without it long numbers are rounded.
const { rawJSON } = JSON as unknown as Readonly<{ rawJSON?: (text: string) => unknown }>;

/** Digits that may be too many. Inside of a string they cost time, but change nothing. */
const MAY_BE_LONG = /\d[\d.]{15,}|\d[eE]|\.\d*0\b|-0\b/;

/** Reads JSON like `JSON.parse`, and `JSON.stringify` writes each number of it with the digits that it had. */
export function parseJson(text: string): unknown {
  if (rawJSON === undefined || !MAY_BE_LONG.test(text)) return JSON.parse(text);
  return JSON.parse(text, keepDigits as (key: string, value: unknown) => unknown);
}

function keepDigits(_key: string, value: unknown, { source }: Readonly<{ source?: string }>): unknown {
  return typeof value === 'number' && source !== undefined && String(value) !== source ? longNumber(source) : value;
}

function longNumber(digits: string): LongNumber {
  const written = rawJSON?.(digits);
  return Object.create({ toJSON: () => written, toString: () => digits });
}
