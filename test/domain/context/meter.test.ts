import { expect, test } from 'vitest';
import { usableOf } from '../../../src/domain/context/limits/limits.ts';
import { thresholdsOf } from '../../../src/domain/context/limits/thresholds.ts';
import type { Measurement } from '../../../src/domain/context/meter/measure.ts';
import { readMeter } from '../../../src/domain/context/meter/meter-reading.ts';

const limits = { contextWindow: 200_000, maxOutput: 64_000 };
const thresholds = thresholdsOf(usableOf(limits), limits.contextWindow);

const measurementOf = (total: number): Measurement => ({
  total,
  byKind: {
    instructions: 0,
    tools: 0,
    user: total,
    assistant: 0,
    reasoning: 0,
    toolCalls: 0,
    toolResults: 0,
    files: 0,
    summary: 0,
  },
  isAnchored: true,
});

test('the meter shows the measured total against what is usable', () => {
  const measurement = measurementOf(56_000);
  expect(readMeter(measurement, limits, thresholds)).toEqual({
    window: 200_000,
    usable: 168_000,
    used: 56_000,
    share: 0.3333,
    byKind: measurement.byKind,
    thresholds,
  });
});

test('the meter goes above 1 for a view that does not fit', () => {
  expect(readMeter(measurementOf(210_000), limits, thresholds).share).toBe(1.25);
});
