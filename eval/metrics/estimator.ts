import { quantile, rounded } from './statistics.ts';

/** What the service took a request for, and what it was. Tokens. */
export type MeasuredCall = Readonly<{ measured: number; real: number; isAnchored: boolean }>;

/** Relative errors; null without any such call. */
export type EstimatorErrors = Readonly<{
  /** Of anchored measures, without their sign. */
  p50: number | null;
  p95: number | null;
  max: number | null;
  /** Of measures without anchor: how far the worst one was below (negative) the truth, or the least above it. */
  coldStartWorst: number | null;
}>;

/** How well requests were measured before they were sent. */
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
