import type { UsageReport } from '@baton-run/server/client';
import type { Dimension } from './usage-filter.ts';

type Row = UsageReport['rows'][number];

/** The sums of one agent, model or tenant, or of all. */
export type Sums = Readonly<{
  name: string;
  runs: number;
  failedRuns: number;
  steps: number;
  inputTokens: number;
  cachedTokens: number;
  outputTokens: number;
  totalTokens: number;
  /** Null: the price of some call is unknown. */
  costUsd: number | null;
}>;

const NONE: Omit<Sums, 'name'> = {
  runs: 0,
  failedRuns: 0,
  steps: 0,
  inputTokens: 0,
  cachedTokens: 0,
  outputTokens: 0,
  totalTokens: 0,
  costUsd: 0,
};

export const nameOf = (row: Row, by: Dimension): string => row[by] ?? (by === 'model' ? 'no answer' : '');

function add(sums: Sums, { runs, failedRuns, steps, usage, costUsd }: Row): Sums {
  return {
    name: sums.name,
    runs: sums.runs + runs,
    failedRuns: sums.failedRuns + failedRuns,
    steps: sums.steps + steps,
    inputTokens: sums.inputTokens + usage.inputTokens,
    cachedTokens: sums.cachedTokens + usage.cacheReadTokens,
    outputTokens: sums.outputTokens + usage.outputTokens,
    totalTokens: sums.totalTokens + usage.totalTokens,
    costUsd: sums.costUsd === null || costUsd === null ? null : sums.costUsd + costUsd,
  };
}

export const sumOfAll = (rows: readonly Row[]): Sums => rows.reduce(add, { name: 'All', ...NONE });

/** The most tokens first. */
export function sumsBy(rows: readonly Row[], by: Dimension): readonly Sums[] {
  const sums = new Map<string, Sums>();
  for (const row of rows) {
    const name = nameOf(row, by);
    sums.set(name, add(sums.get(name) ?? { name, ...NONE }, row));
  }
  return [...sums.values()].toSorted((a, b) => b.totalTokens - a.totalTokens);
}

const DAY_MS = 86_400_000;

export type Days = Readonly<{
  /** UTC midnights, in seconds. */
  days: readonly number[];
  /** From the bottom of a stack to its top. */
  series: readonly Readonly<{ name: string; values: readonly number[] }>[];
}>;

export const OTHERS = 'others';

/** The values of each day, with the smaller names as one. A cost that is not known counts as far as it is known. */
export function daysOf(report: UsageReport, by: Dimension, unit: 'tokens' | 'cost', named: readonly string[]): Days {
  const firstMs = Math.floor(Date.parse(report.since) / DAY_MS) * DAY_MS;
  const lastMs = Math.floor(Date.parse(report.until) / DAY_MS) * DAY_MS;
  const days = Array.from({ length: (lastMs - firstMs) / DAY_MS + 1 }, (_, day) => (firstMs + day * DAY_MS) / 1_000);
  const values = new Map(named.map((name) => [name, days.map(() => 0)]));
  for (const row of report.rows) {
    const name = nameOf(row, by);
    const kept = named.includes(name) ? name : OTHERS;
    const line = values.get(kept) ?? days.map(() => 0);
    values.set(kept, line);
    const at = (Date.parse(row.day ?? '') - firstMs) / DAY_MS;
    line[at] = (line[at] ?? 0) + (unit === 'cost' ? (row.costUsd ?? 0) : row.usage.totalTokens);
  }
  return { days, series: [...values].map(([name, line]) => ({ name, values: line })) };
}
