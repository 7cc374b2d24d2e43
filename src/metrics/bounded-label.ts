/** The label of every value after the first `limit` ones. */
export const OTHER = 'other';

/**
 * Bounds a label: the first `limit` values keep their names, all later ones share `OTHER`. A metric keeps a series for
 * each value for ever, and names of models and tools come from outside.
 */
export function boundedLabel(limit: number): (value: string) => string {
  const labels = new Set<string>();
  return (value) => {
    if (labels.has(value)) return value;
    if (labels.size >= limit) return OTHER;
    labels.add(value);
    return value;
  };
}
