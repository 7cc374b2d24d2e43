import type { ModelLimits } from '../limits/limits.ts';
import type { Thresholds } from '../limits/thresholds.ts';
import type { Measurement } from './measure.ts';

/** In tokens, except `share`. */
export type MeterReading = Readonly<{
  window: number;
  usable: number;
  used: number;
  /** `used / usable`, to four decimals; above 1 when the view does not fit. */
  share: number;
  byKind: Measurement['byKind'];
  thresholds: Thresholds;
}>;

const SHARE_PRECISION = 10_000;

/** Reading of a measured view. `used` is the same total that the triggers read. */
export function readMeter(measurement: Measurement, limits: ModelLimits, thresholds: Thresholds): MeterReading {
  const usable = thresholds.usableTokens;
  const share = Math.round((measurement.total / usable) * SHARE_PRECISION) / SHARE_PRECISION;
  return {
    window: limits.contextWindow,
    usable,
    used: measurement.total,
    share,
    byKind: measurement.byKind,
    thresholds,
  };
}
