/**
 * Splits a whole number in proportion to weights, into whole shares that add up to it. Units lost by rounding down go
 * to the largest remainders; without weights the first key gets everything.
 */
export function shareOut<Key extends string>(
  total: number,
  weights: Readonly<Record<Key, number>>,
  keys: readonly [Key, ...Key[]],
): Record<Key, number> {
  const sum = keys.reduce((weight, key) => weight + weights[key], 0);
  const exact = keys.map((key, index) => (sum > 0 ? (total * weights[key]) / sum : index === 0 ? total : 0));
  const shares = exact.map(Math.floor);
  const left = total - shares.reduce((whole, share) => whole + share, 0);
  const byRemainder = exact
    .map((value, index) => ({ index, remainder: value - Math.floor(value) }))
    .toSorted((a, b) => b.remainder - a.remainder || a.index - b.index);
  for (const { index } of byRemainder.slice(0, left)) shares[index] = (shares[index] ?? 0) + 1;
  return Object.fromEntries(keys.map((key, index) => [key, shares[index] ?? 0])) as Record<Key, number>;
}
