import { expect, test } from 'vitest';
import { prunableTokens, pruneMinimum } from '../../../eval/metrics/prunable.ts';
import type { StepCall } from '../../../eval/metrics/traced-call.ts';
import { countText } from '../../../simulator/tokens.ts';
import { callOf, requestOf, resultOf } from './journal-fixture.ts';

const OUTPUT = 'word '.repeat(300);

const tokensOf = (outputs: number): number => countText(OUTPUT.repeat(outputs));

function callWith(outputs: number, promptTokens: number): StepCall {
  const results = Array.from({ length: outputs }, (_, index) => resultOf(`call_${index}`, OUTPUT));
  return { ...callOf({ promptTokens }), request: requestOf(...results), step: 0 };
}

test('what could be cleared is what is shown beyond the newest outputs, where a compaction is due otherwise', () => {
  const prunable = (calls: StepCall[], factor = 1): number => prunableTokens(calls, 1_000, () => factor);
  expect(prunable([callWith(4, 979)])).toBe(0);
  expect(prunable([callWith(4, 980)])).toBe(tokensOf(4) - 250);
  expect(prunable([callWith(4, 980)], 2)).toBe(2 * tokensOf(4) - 250);
  expect(prunable([callWith(4, 990), callWith(1, 990)])).toBe(tokensOf(4) - 250);
  expect(prunable([callWith(0, 990)])).toBe(0);
});

test('a prune must free a tenth of what is usable, at most 20k', () => {
  expect(pruneMinimum(12_000)).toBe(1_200);
  expect(pruneMinimum(750_000)).toBe(20_000);
});
