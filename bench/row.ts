/** The result of one measurement, and whether it meets its goal. */
export type Row = Readonly<{
  case: string;
  backend: string;
  /** The median of the repetitions as a multiple of the reference's, pair by pair; null without a reference. */
  ratio: number | null;
  /** For the ratio, or without a reference for the median; null without a goal. */
  goal: number | null;
  goalIs: 'at least' | 'at most' | null;
  ok: boolean;
  /** Over `n` repetitions, in `unit`. */
  median: number;
  min: number;
  max: number;
  n: number;
  unit: string;
  /** The measured quantity, or the two clock readings it lies between. */
  timed: string;
}>;

export type Measured = Pick<Row, 'case' | 'backend' | 'timed'> &
  Readonly<{
    /** Default: milliseconds. */
    unit?: string;
    /** One value per repetition. */
    values: readonly number[];
    goal?: Readonly<{ atLeast: number } | { atMost: number }>;
    /** The reference's values, from the same repetitions. The goal is then a goal for the ratio. */
    reference?: readonly number[];
  }>;

export function toRow({ values, goal, reference, unit = 'ms', timed, ...named }: Measured): Row {
  const median = medianOf(values);
  const ratio = reference === undefined ? null : ratioOf(values, reference);
  return {
    ...named,
    ratio: ratio === null ? null : rounded(ratio),
    goal: goal === undefined ? null : 'atLeast' in goal ? goal.atLeast : goal.atMost,
    goalIs: goal === undefined ? null : 'atLeast' in goal ? 'at least' : 'at most',
    ok: goal === undefined || isReached(goal, ratio ?? median),
    median: rounded(median),
    min: rounded(Math.min(...values)),
    max: rounded(Math.max(...values)),
    n: values.length,
    unit,
    timed,
  };
}

/** Compares repetitions that took turns pair by pair, so that other load on the machine hits both values of a pair. */
function ratioOf(values: readonly number[], reference: readonly number[]): number {
  if (values.length !== reference.length) return medianOf(values) / medianOf(reference);
  return medianOf(values.map((value, index) => value / (reference[index] ?? Number.NaN)));
}

function isReached(goal: NonNullable<Measured['goal']>, value: number): boolean {
  return 'atLeast' in goal ? value >= goal.atLeast : value <= goal.atMost;
}

function medianOf(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? upper) + upper) / 2;
}

/** Nearest rank. NaN for an empty list. */
export function percentileOf(values: readonly number[], percent: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil((percent / 100) * sorted.length) - 1)] ?? Number.NaN;
}

const rounded = (value: number): number => Math.round(value * 1_000) / 1_000;

/** The rows as a table for people. */
export function formatTable(rows: readonly Row[]): string {
  const columns = ['case', 'backend', 'median', 'min', 'max', 'unit', 'n', 'ratio', 'goal', 'ok', 'measured'];
  const cells = rows.map((row) => [
    row.case,
    row.backend,
    row.median.toFixed(2),
    row.min.toFixed(2),
    row.max.toFixed(2),
    row.unit,
    String(row.n),
    row.ratio?.toFixed(3) ?? '-',
    row.goal === null ? '-' : `${row.goalIs === 'at least' ? '>=' : '<='} ${row.goal}`,
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
