import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createLineBudget } from '../../src/tools/mcp/line-budget.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function heard() {
  const told: unknown[] = [];
  const budget = createLineBudget({
    maxLines: 2,
    perMs: 1_000,
    onLine: (line) => told.push(line),
    onLeftOut: (lines) => told.push(lines),
  });
  return { budget, told };
}

test('the first lines of a span are told, and at its end how many others there were', () => {
  const { budget, told } = heard();
  for (const line of ['a', 'b', 'c', 'd']) budget.push(line);
  expect(told).toEqual(['a', 'b']);
  vi.advanceTimersByTime(1_000);
  expect(told).toEqual(['a', 'b', 2]);
  vi.advanceTimersByTime(10_000);
  for (const line of ['e', 'f']) budget.push(line);
  vi.advanceTimersByTime(1_000);
  budget.push('g');
  expect(told).toEqual(['a', 'b', 2, 'e', 'f', 'g']);
});

test('what was left out is told at the end, once, and no timer is left', () => {
  const { budget, told } = heard();
  for (const line of ['a', 'b', 'c']) budget.push(line);
  budget[Symbol.dispose]();
  budget[Symbol.dispose]();
  expect(told).toEqual(['a', 'b', 1]);
  expect(vi.getTimerCount()).toBe(0);
});
