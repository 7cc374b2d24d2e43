import type { CompactionRow, PruneRow, StepRow } from '@baton-run/server/client';
import { capital } from '../format.ts';
import type { Row } from './step-rows.ts';

type StepOfList = Extract<Row, { kind: 'step' }>;

/** Requests that follow each other, drawn as one bar. */
export type Bin = Readonly<{
  key: string;
  /** Never empty. */
  steps: readonly StepOfList[];
  /** The request with the fullest context. */
  fullest: StepOfList;
  /** Compactions and prunes of the view between these requests. */
  compactions: readonly CompactionRow[];
  prunes: readonly PruneRow[];
  /** The provider's cache broke in one of them. */
  broken: StepRow | undefined;
}>;

/** The outcome of a compaction that left the view as it was. */
export const hasFailed = ({ state }: Pick<CompactionRow, 'state'>): boolean =>
  state === 'failed' || state === 'rejected';

/** Why a compaction failed, for a place that already says that it did. */
export const causeWords = (error: CompactionRow['error']): string =>
  capital(error?.message.replace(/^The compaction failed: /, '') ?? 'It brought no smaller context.');

const shareOf = ({ of }: StepOfList): number =>
  of.context === null ? 0 : of.context.usedTokens / of.context.usableTokens;

/**
 * Gathers the requests of the waterfall in as few equal bins as there is room for. A prune or a compaction belongs to the
 * bin of the request before it.
 * @param maxBins at least 1
 */
export function binsOf(rows: readonly Row[], maxBins: number): readonly Bin[] {
  const steps = rows.filter((row): row is StepOfList => row.kind === 'step' && row.of.context !== null);
  if (steps.length === 0) return [];
  const size = Math.ceil(steps.length / maxBins);
  const members: Row[][] = [];
  let count = 0;
  for (const row of rows) {
    if (row.kind === 'step' && row.of.context !== null) {
      if (count % size === 0) members.push([]);
      count += 1;
    }
    if (row.kind === 'step' || row.kind === 'compaction' || row.kind === 'prune') members.at(-1)?.push(row);
  }
  return members.flatMap((all) => toBin(all) ?? []);
}

function toBin(all: readonly Row[]): Bin | null {
  const steps = all.filter((row): row is StepOfList => row.kind === 'step' && row.of.context !== null);
  const [first] = steps;
  if (first === undefined) return null;
  return {
    key: first.key,
    steps,
    fullest: steps.reduce((most, row) => (shareOf(row) > shareOf(most) ? row : most)),
    compactions: all.flatMap((row) => (row.kind === 'compaction' ? [row.of] : [])),
    prunes: all.flatMap((row) => (row.kind === 'prune' ? [row.of] : [])),
    broken: steps.find(({ of }) => of.cacheBreak !== null)?.of,
  };
}
