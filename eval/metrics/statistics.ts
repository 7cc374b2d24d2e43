/** The value that the given share of all values does not exceed (nearest rank). Null: there are no values. */
export function quantile(values: readonly number[], share: number): number | null {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? null;
}

export function rounded(value: number, digits = 4): number {
  return Math.round(value * 10 ** digits) / 10 ** digits;
}
