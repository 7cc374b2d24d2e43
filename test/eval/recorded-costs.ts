import { expect, type TestContext } from 'vitest';
import { costOfRaw, formatCost } from '../../eval/metrics/bars.ts';
import type { ReplayResult } from '../../eval/replay-recording.ts';

/** Costs of conversations that are too large for their window, as shares of raw. Lower them with every gain. */
const RECORDED_COSTS: Readonly<Record<string, number>> = {
  'airline-00 16k': 1.038,
  'airline-02 16k': 1.004,
  'airline-04 16k': 0.974,
  'coding-refactor-484-calls 64k': 0.196,
  'swe-pandas-dev-pandas-53652 16k': 1.086,
  'swe-pydantic-pydantic-8316 16k': 0.977,
};
/** Costs differ a little where another tokenizer counts part of the tokens. */
const TOLERANCE = 1.005;

/** Expects that a replay in a window of this many tokens costs no more than it may. Skips where no cost is recorded. */
export function expectCost(name: string, window: number, metrics: ReplayResult['context'], context: TestContext): void {
  if (metrics === null) throw new Error('nothing was measured');
  const cost = costOfRaw(metrics);
  const key = `${name} ${window / 1000}k`;
  const recorded = RECORDED_COSTS[key];
  if (cost.goal === null && recorded === undefined) {
    context.skip(`nothing is recorded of ${key}: ${formatCost(cost)}`);
  }
  expect(cost.share, formatCost(cost)).toBeLessThanOrEqual(cost.goal ?? Number(recorded) * TOLERANCE);
}
