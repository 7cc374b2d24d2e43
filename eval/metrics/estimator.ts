import { quantile, rounded } from './statistics.ts';

/** Tokens of a request: the service's measure and the real number. */
export type MeasuredCall = Readonly<{ measured: number; real: number; isAnchored: boolean }>;

/** Relative errors. Null: there was no such call. */
export type EstimatorErrors = Readonly<{
  /** Absolute errors of anchored measures. */
  p50: number | null;
  p95: number | null;
  max: number | null;
  /** The lowest error of measures without an anchor; negative: the measure was below the real number. */
  coldStartWorst: number | null;
}>;

export function estimatorErrors(calls: readonly MeasuredCall[]): EstimatorErrors {
  const errorsOf = (isAnchored: boolean): number[] =>
    calls
      .filter((call) => call.isAnchored === isAnchored && call.real > 0)
      .map(({ measured, real }) => measured / real - 1);
  const anchored = errorsOf(true).map(Math.abs);
  const toShare = (value: number | null): number | null => (value === null ? null : rounded(value));
  return {
    p50: toShare(quantile(anchored, 0.5)),
    p95: toShare(quantile(anchored, 0.95)),
    max: toShare(quantile(anchored, 1)),
    coldStartWorst: toShare(quantile(errorsOf(false), 0)),
  };
}
