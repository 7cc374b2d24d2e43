/** The label of every value after the first `limit` ones. */
export const OTHER = 'other';

/**
 * Bounds a label: the first `limit` values keep their names, all later ones share `OTHER`. A metric keeps a series for
 * each value for ever, and names of models and tools come from outside.
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
