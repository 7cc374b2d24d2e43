import { readdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { type Recording, readRecording } from '../simulator/recording.ts';
import { costOfRaw, formatCost, missedBars, wasCrowdedOut } from './metrics/bars.ts';
import type { ContextMetrics } from './metrics/context-metrics.ts';
import { ReplayError } from './replay-error.ts';
import { type ReplayOptions, replayRecording } from './replay-recording.ts';
import { REPLAY_PROVIDERS, type ReplayProvider } from './replayed-agent.ts';

/** Windows in tokens that every recording is replayed against. */
const WINDOWS = [16_000, 32_000, 64_000, 128_000, 200_000] as const;

export type MatrixCell = Readonly<{
  name: string;
  provider: ReplayProvider;
  window: number;
  /** Null: the replay failed before its end. */
  metrics: ContextMetrics | null;
  durationMs: number;
  /** The bars that the replay missed. */
  missed: readonly string[];
}>;

/**
 * Replays all recordings of a folder, with each provider and window, one after the other.
 * @param options may narrow providers and windows to one
 * @param tell called after each replay
 */
export async function replayMatrix(
  folder: string,
  options: ReplayOptions,
  tell: (cell: MatrixCell) => void,
): Promise<MatrixCell[]> {
  const cells: MatrixCell[] = [];
  for (const name of (await readdir(folder)).filter((file) => file.endsWith('.jsonl')).sort()) {
    const recording = await readRecording(join(folder, name));
    for (const provider of options.provider === undefined ? REPLAY_PROVIDERS : [options.provider]) {
      for (const window of options.window === undefined ? WINDOWS : [options.window]) {
        const place = { name: basename(name, '.jsonl'), provider, window };
        const cell = { ...place, ...(await replayCell(recording, { ...options, provider, window })) };
        cells.push(cell);
        tell(cell);
      }
    }
  }
  return cells;
}

type CellResult = Pick<MatrixCell, 'metrics' | 'durationMs' | 'missed'>;

/** A replay that fails counts as missed, and the matrix continues. */
async function replayCell(recording: Recording, options: ReplayOptions): Promise<CellResult> {
  try {
    const { context, mismatches, durationMs } = await replayRecording(recording, options);
    if (context === null) return { metrics: null, durationMs, missed: ['nothing was measured'] };
    const isEqual = mismatches.length === 0 || wasCrowdedOut(context);
    const different = isEqual ? [] : [`${mismatches.length} mismatches with the recording`];
    return { metrics: context, durationMs, missed: [...missedBars(context), ...different] };
  } catch (error) {
    options.signal?.throwIfAborted();
    if (!(error instanceof ReplayError)) throw error;
    return { metrics: null, durationMs: 0, missed: [`${error.code}: ${error.message}`] };
  }
}

export function formatCell({ name, provider, window, metrics, durationMs, missed }: MatrixCell): string {
  const at = `${name} ${provider} ${window / 1000}k:`;
  if (metrics === null) return `${at} ${missed.join('; ')}`;
  const { calls, compactions, prunes, rejectedByWindow, prefixHit } = metrics;
  const wellEnded = metrics.exhausted > 0 ? 'ok, ended as exhausted by a single message' : 'ok';
  const verdict = missed.length === 0 ? wellEnded : missed.join('; ');
  return [
    `${at} ${calls} calls, ${compactions} compactions, ${prunes} prunes,`,
    `${rejectedByWindow} rejected, ${formatCost(costOfRaw(metrics))}, prefix hit ${prefixHit}, ${Math.round(durationMs / 1000)} s: ${verdict}`,
  ].join(' ');
}

export function summarizeMatrix(cells: readonly MatrixCell[]) {
  const sum = (read: (metrics: ContextMetrics) => number): number =>
    cells.reduce((total, { metrics }) => total + (metrics === null ? 0 : read(metrics)), 0);
  return {
    replays: cells.length,
    ok: cells.filter(({ missed }) => missed.length === 0).length,
    calls: sum(({ calls }) => calls),
    summaryCalls: sum(({ summaryCalls }) => summaryCalls),
    compactions: sum(({ compactions }) => compactions),
    compactionFailures: sum(({ compactionFailures }) => compactionFailures),
    prunes: sum(({ prunes }) => prunes),
    rejectedByWindow: sum(({ rejectedByWindow }) => rejectedByWindow),
    orphans: sum(({ orphans }) => orphans),
    invalidViews: sum(({ invalidViews }) => invalidViews),
    exhausted: sum(({ exhausted }) => exhausted),
  };
}
