import type { ContextMeter, StepRow } from '@baton-run/server/client';
import { memo, type ReactNode } from 'react';
import { count, percent, shortCount } from '../format.ts';
import type { Row } from './step-rows.ts';

/** More bars would be thinner than a line. */
const MAX_BARS = 160;
const HEIGHT_PX = 44;

type Props = Readonly<{
  rows: readonly Row[];
  meter: ContextMeter | undefined;
  chosen: StepRow | undefined;
  choose: (row: Extract<Row, { kind: 'step' }>) => void;
}>;

const BREAKS: Readonly<Record<NonNullable<StepRow['cacheBreak']>, string>> = {
  compaction: 'compaction',
  prune: 'prune',
  agent: 'other agent or model',
  tools: 'other tools',
  unexplained: 'no cause that Baton knows: the provider forgot it, or it expired',
};
export const breakWords = (cause: NonNullable<StepRow['cacheBreak']>): string => BREAKS[cause];

/**
 * The context over the steps of the waterfall, a bar for each: how much of the usable tokens the request had, and how
 * much of it the provider read from its cache. Prunes and compactions stand between.
 */
export const ContextStrip = memo(function ContextStrip({ rows, meter, chosen, choose }: Props): ReactNode {
  const shown = rows.filter(isShown).slice(-MAX_BARS);
  if (shown.length === 0) return null;
  const usable = meter?.usable;
  const marks = [
    ['prunes from', meter?.thresholds['pruneAtTokens']],
    ['compacts from', meter?.thresholds['compactAtTokens']],
  ] as const;
  return (
    <section aria-label="Context of each step" className="flex-none border-b border-line px-3 pt-1 pb-2">
      <p className="flex justify-between text-xs text-dim">
        <span className="min-w-0 truncate">
          Context of each request{usable !== undefined && `, of ${shortCount(usable)} tokens`}
        </span>
        <span className="flex flex-none items-center gap-2 pl-2">
          <Key className="bg-bar-cached" words="from the cache" />
          <Key className="bg-bar-stream" words="new" />
        </span>
      </p>
      <div className="relative flex items-end gap-px" style={{ height: HEIGHT_PX }}>
        {shown.map((row) =>
          row.kind === 'step' ? (
            <Bar key={row.key} row={row} isChosen={row.of.messageId === chosen?.messageId} choose={choose} />
          ) : (
            <Mark key={row.key} row={row} />
          ),
        )}
        {usable !== undefined &&
          marks.map(([words, tokens]) =>
            tokens === undefined || tokens > usable ? null : (
              <span
                key={words}
                className="pointer-events-none absolute inset-x-0 border-t border-dashed border-strong-line"
                style={{ bottom: `${(tokens / usable) * 100}%` }}
                title={`${words} ${count(tokens)} tokens`}
              />
            ),
          )}
      </div>
    </section>
  );
});

type Shown = Extract<Row, { kind: 'step' | 'prune' | 'compaction' }>;
const isShown = (row: Row): row is Shown =>
  row.kind === 'prune' || row.kind === 'compaction' || (row.kind === 'step' && row.of.context !== null);

export const Key = ({ className, words }: Readonly<{ className: string; words: string }>): ReactNode => (
  <span className="flex items-center gap-1">
    <span className={`h-2 w-2 rounded-[2px] ${className}`} aria-hidden="true" />
    {words}
  </span>
);

type BarProps = Readonly<{
  row: Extract<Row, { kind: 'step' }>;
  isChosen: boolean;
  choose: (row: Extract<Row, { kind: 'step' }>) => void;
}>;

function Bar({ row, isChosen, choose }: BarProps): ReactNode {
  const { step, context, cachedShare, cacheBreak } = row.of;
  if (context === null) return null;
  const share = context.usedTokens / context.usableTokens;
  const words = [
    `Step ${count(step)}: ${count(context.usedTokens)} of ${count(context.usableTokens)} usable tokens, ${percent(share)}`,
    cachedShare === null ? 'cached share unknown' : `${percent(cachedShare)} from the cache`,
    ...(cacheBreak === null ? [] : [`the cache broke: ${breakWords(cacheBreak)}`]),
  ].join('\n');
  return (
    <button
      type="button"
      className={`relative h-full max-w-6 min-w-[2px] flex-1 rounded-t-[2px] ${isChosen ? 'bg-chosen outline outline-accent' : 'hover:bg-hover'}`}
      title={words}
      aria-label={words}
      tabIndex={-1}
      onClick={() => choose(row)}
    >
      <span
        className="absolute inset-x-0 bottom-0 overflow-hidden rounded-t-[2px] bg-bar-stream"
        style={{ height: `${Math.min(100, share * 100)}%` }}
      >
        <span
          className="absolute inset-x-0 bottom-0 bg-bar-cached"
          style={{ height: `${(cachedShare ?? 0) * 100}%` }}
        />
      </span>
      {cacheBreak !== null && <span className="absolute inset-x-0 top-0 h-1 bg-failed" />}
    </button>
  );
}

function Mark({ row }: Readonly<{ row: Exclude<Shown, { kind: 'step' }> }>): ReactNode {
  const isPrune = row.kind === 'prune';
  const words = isPrune
    ? `Prune: ${count(row.of.savedTokens)} tokens saved`
    : `Compaction, round ${row.of.round}: ${count(row.of.tokensBefore)} tokens${row.of.tokensAfter === null ? '' : ` → ${count(row.of.tokensAfter)}`}`;
  return (
    <span className="flex h-full w-3 flex-none items-start justify-center text-xs text-accent" title={words}>
      <span aria-hidden="true">{isPrune ? 'p' : '▲'}</span>
      <span className="sr-only">{words}</span>
    </span>
  );
}
