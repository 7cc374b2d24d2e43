import { REQUEST_KINDS } from './neighbour/requests.ts';
import type { Try } from './run-row.ts';

/** The result of one row. */
export type RowResult = Readonly<{
  row: string;
  /** Null: the machine lacks something that the row needs; `reasons` says what. */
  ok: boolean | null;
  reasons: readonly string[];
  /** The number of tries. The other values are those of the last one. */
  tries: number;
  last: Try | null;
  seed: string;
  durationMs: number;
}>;

/** One line of `--json`. */
export function toJson({ row, ok, reasons, tries, last, seed, durationMs }: RowResult): string {
  if (last === null) return JSON.stringify({ row, ok, skipped: reasons.join('; ') });
  const { felt, spares, ended, lost, stuck, breaches, done } = last.evidence;
  return JSON.stringify({
    row,
    ok,
    reasons,
    felt,
    spares,
    ended: ended.length,
    lost: lost.length,
    stuck: stuck.length,
    breaches: breaches.length,
    done,
    peakMb: last.peakMb,
    tries,
    seed,
    durationMs: Math.round(durationMs),
  });
}

/** A row for people: its result, the other tenant's times, and the reasons if it is not ok. */
export function tell({ row, ok, reasons, tries, last, durationMs }: RowResult): string {
  if (last === null) return `--  ${row}: left out, ${reasons.join('; ')}`;
  const { felt, spares, done } = last.evidence;
  const times = REQUEST_KINDS.map((kind) => {
    const { quiet, meanwhile, limitMs, failed } = felt[kind];
    const limit = spares.includes(kind) ? `at most ${limitMs}` : `not spared, ${failed} refused`;
    return `    ${kind.padEnd(7)} p50 ${quiet.p50} → ${meanwhile.p50} ms   p99 ${quiet.p99} → ${meanwhile.p99} ms (${limit}, n ${meanwhile.n})`;
  });
  const counts = Object.entries(done).map(([what, count]) => `${count} ${what}`);
  const tried = tries === 1 ? '' : `, tried ${tries} times`;
  return [
    `${ok ? 'ok ' : 'BAD'} ${row}: ${(durationMs / 1_000).toFixed(1)} s${tried}; ${counts.join(', ')}`,
    ...times,
    ...reasons.map((reason) => `    ! ${reason}`),
  ].join('\n');
}
