/** Deeper values are refused: whoever reads them does so level by level, Postgres too. */
export const MAX_JSON_DEPTH = 100;

/** Whether a value of JSON has no more levels than are allowed; no deeper level is looked at. */
export function isWithinJsonDepth(value: unknown): boolean {
  let level: readonly unknown[] = [value];
  for (let depth = 0; depth <= MAX_JSON_DEPTH; depth++) {
    level = level.flatMap((item) => (typeof item === 'object' && item !== null ? Object.values(item) : []));
    if (level.length === 0) return true;
  }
  return false;
}
