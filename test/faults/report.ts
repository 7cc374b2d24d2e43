import type { FaultResult } from './run-fault.ts';

const PERCENTILES = [50, 99] as const;

/** Nearest rank. Null where there is nothing to rank. */
function percentile(values: readonly number[], percent: number): number | null {
  const sorted = values.toSorted((a, b) => a - b);
  const value = sorted[Math.max(0, Math.ceil((percent / 100) * sorted.length) - 1)];
  return value === undefined ? null : Math.round(value);
}

function percentiles(values: readonly number[]) {
  const [p50, p99] = PERCENTILES.map((percent) => percentile(values, percent));
  return { n: values.length, p50: p50 ?? null, p99: p99 ?? null };
}

/** One row of `--json`. */
export function toRow({
  fault,
  backend,
  runs,
  parents,
  findings,
  deaths,
  wentWithCommits,
  hits,
  recoveryMs,
  cancelMs,
  treeCancelMs,
  durationMs,
  broken,
}: FaultResult) {
  const counts = Object.fromEntries(Object.entries(findings).map(([kind, all]) => [kind, all.length]));
  return {
    fault,
    backend,
    runs,
    ...(parents > 0 && { parents }),
    ...(counts as Record<keyof typeof findings, number>),
    deaths,
    ...(wentWithCommits.n > 0 && { wentWithCommits }),
    ...(Object.keys(hits).length > 0 && { hits }),
    recoveryMs: percentiles(recoveryMs),
    cancelMs: percentiles(cancelMs),
    ...(treeCancelMs.length > 0 && { treeCancelMs: percentiles(treeCancelMs) }),
    durationMs: Math.round(durationMs),
    ok: broken.length === 0,
  };
}

/** One line for people; a bad row adds its findings. */
export function tell(result: FaultResult): string {
  const { fault, backend, runs, ok, deaths, recoveryMs, cancelMs, unknownTools, durationMs } = toRow(result);
  const treeCancelMs = percentiles(result.treeCancelMs);
  const times = (what: string, { n, p50, p99 }: typeof recoveryMs): string =>
    n === 0 ? '' : `, ${what} p50 ${p50} ms p99 ${p99} ms (${n})`;
  const struck = Object.entries(result.hits)
    .map(([what, count]) => `, ${count} ${what}`)
    .join('');
  const line = `${ok ? 'ok ' : 'BAD'} ${fault} on ${backend}: ${runs} runs${result.parents > 0 ? `, ${result.parents} of them with children,` : ''} in ${(durationMs / 1_000).toFixed(1)} s, ${deaths} deaths${struck}${times('recovery', recoveryMs)}${times('cancel', cancelMs)}${times('cancel of a tree', treeCancelMs)}, ${unknownTools} unknown`;
  return [line, ...result.broken.flatMap((kind) => describe(kind, result))].join('\n');
}

const DESCRIBED = 5;

function describe(kind: string, { findings }: FaultResult): string[] {
  const all = findings[kind as keyof typeof findings];
  return [`    ${kind}: ${all.length}`, ...all.slice(0, DESCRIBED).map((each) => `      ${each}`)];
}
