/** The most typing mistakes in a match; a name is allowed one per three letters. */
const MOST_MISTAKES = 3;

/** A longer name is not a typing mistake. */
const LONGEST_NAME = 100;

/** ` (did you mean "tools"?)`, or an empty string if no known name is close. */
export function didYouMean(name: string, candidates: Iterable<string>): string {
  const suggestion = closest(name, candidates);
  return suggestion === null ? '' : ` (did you mean "${suggestion}"?)`;
}

function closest(name: string, candidates: Iterable<string>): string | null {
  if (name.length > LONGEST_NAME) return null;
  const target = plain(name);
  const allowed = Math.min(MOST_MISTAKES, Math.floor(target.length / 3));
  let best: Readonly<{ name: string; mistakes: number }> | null = null;
  for (const candidate of candidates) {
    const mistakes = mistakesBetween(target, plain(candidate));
    if (mistakes <= allowed && mistakes < (best?.mistakes ?? Number.POSITIVE_INFINITY)) {
      best = { name: candidate, mistakes };
    }
  }
  return best?.name ?? null;
}

/** `max_steps` and `maxSteps` are equal. */
const plain = (name: string): string => name.toLowerCase().replaceAll(/[^a-z0-9]/g, '');

/**
 * Letters to insert, remove, replace or swap with the next one: the optimal string alignment distance
 * (https://en.wikipedia.org/wiki/Damerau%E2%80%93Levenshtein_distance). fastest-levenshtein counts a swap as two mistakes.
 */
function mistakesBetween(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const isSame = a[row - 1] === b[column - 1];
      const isSwapped = a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      current[column] = Math.min(
        (last[column] ?? 0) + 1,
        (current[column - 1] ?? 0) + 1,
        (last[column - 1] ?? 0) + (isSame ? 0 : 1),
        isSwapped ? (beforeLast[column - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY,
      );
    }
    [beforeLast, last] = [last, current];
  }
  return last[b.length] ?? a.length;
}
