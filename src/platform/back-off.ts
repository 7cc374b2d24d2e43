/**
 * The pause before the next try: it doubles with each failure up to a cap. Chance takes up to half of it away, so that
 * processes that failed together do not all come back at once.
 * @param failures before this one, from 0
 */
export const backOffMs = (failures: number, firstMs: number, capMs: number): number =>
  Math.ceil(Math.min(capMs, firstMs * 2 ** failures) * (0.5 + Math.random() / 2));
