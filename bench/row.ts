/** What one case measured, and whether it is good enough. */
export type Row = Readonly<{
  case: string;
  backend: string;
  /** What is between the two readings of the clock. */
  timed: string;
  /** Milliseconds over `n` repetitions. */
  median: number;
  min: number;
  max: number;
  n: number;
  /** The median as a multiple of the reference's; null without a reference. */
  ratio: number | null;
  /** The largest ratio that is good enough, or without one the largest median; null where nothing is promised. */
  goal: number | null;
  ok: boolean;
}>;

export type Measured = Pick<Row, 'case' | 'backend' | 'timed'> &
  Readonly<{
    /** Milliseconds of each repetition. */
    times: readonly number[];
    goal?: number;
    /** Milliseconds that the same work takes where it is known to be cheap; the goal is then a ratio. */
    reference?: readonly number[];
  }>;

export function toRow({ times, goal, reference, ...named }: Measured): Row {
  const median = medianOf(times);
  const ratio = reference === undefined ? null : median / medianOf(reference);
  return {
    ...named,
    median: rounded(median),
    min: rounded(Math.min(...times)),
    max: rounded(Math.max(...times)),
    n: times.length,
    ratio: ratio === null ? null : rounded(ratio),
    goal: goal ?? null,
    ok: goal === undefined || (ratio ?? median) <= goal,
  };
}

function medianOf(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? upper) + upper) / 2;
}

const rounded = (value: number): number => Math.round(value * 1_000) / 1_000;

/** The rows as a table for people. */
export function formatTable(rows: readonly Row[]): string {
  const columns = ['case', 'backend', 'median ms', 'min', 'max', 'n', 'ratio', 'goal', 'ok', 'timed'];
  const cells = rows.map((row) => [
    row.case,
    row.backend,
    row.median.toFixed(2),
    row.min.toFixed(2),
    row.max.toFixed(2),
    String(row.n),
    row.ratio?.toFixed(2) ?? '-',
    row.goal === null ? '-' : `<= ${row.goal}`,
    row.ok ? 'yes' : 'NO',
    row.timed,
  ]);
  const widths = columns.map((name, at) => Math.max(name.length, ...cells.map((line) => line[at]?.length ?? 0)));
  return [columns, ...cells]
    .map((line) =>
      line
        .map((cell, at) => cell.padEnd(widths[at] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
