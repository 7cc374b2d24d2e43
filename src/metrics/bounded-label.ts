/** What every value after the first `limit` ones is called. */
export const OTHER = 'other';

/**
 * Keeps a label small: the first `limit` values have their name, all later ones share one. A metric has a series for
 * each value of its labels for ever, and names of models and tools come from outside.
 */
export function boundedLabel(limit: number): (value: string) => string {
  const known = new Set<string>();
  return (value) => {
    if (known.has(value)) return value;
    if (known.size >= limit) return OTHER;
    known.add(value);
    return value;
  };
}
