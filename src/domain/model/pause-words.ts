const UNIT_MS: readonly (readonly [RegExp, number])[] = [
  [/^(?:ms|millis|milliseconds?)$/, 1],
  [/^(?:s|secs?|seconds?)$/, 1_000],
  [/^(?:m|mins?|minutes?)$/, 60_000],
  [/^(?:h|hrs?|hours?)$/, 3_600_000],
  [/^(?:d|days?)$/, 86_400_000],
];

const UNITS = 'ms|millis|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?';
const PIECE = new RegExp(String.raw`(\d+(?:\.\d+)?)\s*(${UNITS})(?![a-z])`, 'gi');
const PAUSE = new RegExp(
  String.raw`\b(?:try again|retry|retry[- ]after|wait|available(?: again)?|resets?)\b[^.\d]{0,40}((?:\d+(?:\.\d+)?\s*(?:${UNITS})(?![a-z])[\s,]*(?:and\s+)?)+)`,
  'i',
);

/** A length of time such as `1m12s`, `38s`, `45.837906927s` or `2 minutes and 5 seconds`. Null: it is none. */
function durationMs(text: string): number | null {
  const pieces = [...text.toLowerCase().matchAll(PIECE)];
  if (pieces.length === 0) return null;
  return pieces.reduce((sum, [, count, unit = '']) => {
    const factor = UNIT_MS.find(([pattern]) => pattern.test(unit))?.[1] ?? 0;
    return sum + Math.ceil(Number(count) * factor);
  }, 0);
}

/** The pause that a provider asks for in its words (`Please try again in 1m12s.`). Null: it names none. */
export function pauseInWords(text: string): number | null {
  const amount = PAUSE.exec(text)?.[1];
  return amount === undefined ? null : durationMs(amount);
}

/** A pause in a field of an error: a length of time as text, or seconds. Null: it is none. */
export function pauseInField(value: unknown, unitMs: number): number | null {
  if (typeof value === 'number') return Number.isFinite(value) && value >= 0 ? Math.ceil(value * unitMs) : null;
  if (typeof value !== 'string') return null;
  return /^\d+(?:\.\d+)?$/.test(value) ? Math.ceil(Number(value) * unitMs) : durationMs(value);
}
