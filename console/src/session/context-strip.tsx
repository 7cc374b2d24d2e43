import type { ContextMeter, StepRow } from '@baton-run/server/client';
import { ChevronsDownUp } from 'lucide-react';
import { memo, type ReactNode } from 'react';
import { count, percent, plural, shortCount } from '../format.ts';
import { type Bin, binsOf, hasFailed } from './context-bins.ts';
import type { Row } from './step-rows.ts';

/** More bars would be thinner than their marks are readable, also on a phone. */
const MAX_BARS = 72;
const HEIGHT_PX = 44;

type Choose = (row: Extract<Row, { kind: 'step' }>) => void;

type Props = Readonly<{
  rows: readonly Row[];
  meter: ContextMeter | undefined;
  chosen: StepRow | undefined;
  choose: Choose;
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
 * The context over the steps of the waterfall, the newest at the right: how much of the usable tokens each request had,
 * and how much of it the provider read from its cache. A bar of a long run stands for several requests, as high as the
 * fullest of them.
 */
export const ContextStrip = memo(function ContextStrip({ rows, meter, chosen, choose }: Props): ReactNode {
  const bins = binsOf(rows, MAX_BARS);
  if (bins.length === 0) return null;
  const usable = meter?.usable;
  const most = Math.max(...bins.map(({ steps }) => steps.length));
  const thresholds = (['pruneAtTokens', 'compactAtTokens'] as const).flatMap((name) => {
    const tokens = meter?.thresholds[name];
    return tokens === undefined || usable === undefined || tokens > usable ? [] : [tokens / usable];
  });
  return (
    <section aria-label="Context of each step" className="min-w-0 flex-none border-b border-line px-3 pt-1 pb-1.5">
      <p className="truncate text-xs text-dim">
        Context of each request{usable !== undefined && `, of ${shortCount(usable)} tokens`}
        {most > 1 && ` · a bar is ${plural(most, 'request')}`}
      </p>
      <div className="relative flex min-w-0 items-end gap-px overflow-hidden" style={{ height: HEIGHT_PX }}>
        {bins.map((bin) => (
          <Bar
            key={bin.key}
            bin={bin}
            isChosen={bin.steps.some(({ of }) => of.messageId === chosen?.messageId)}
            choose={choose}
          />
        ))}
        {thresholds.map((share) => (
          <span
            key={share}
            className="pointer-events-none absolute inset-x-0 border-t border-dashed border-strong-line"
            style={{ bottom: `${share * 100}%` }}
          />
        ))}
      </div>
      <Legend bins={bins} meter={meter} />
    </section>
  );
});

/** Names what the chart shows now; what it does not show needs no name. */
function Legend({ bins, meter }: Readonly<{ bins: readonly Bin[]; meter: ContextMeter | undefined }>): ReactNode {
  const { pruneAtTokens, compactAtTokens } = meter?.thresholds ?? {};
  const compactions = bins.flatMap((bin) => bin.compactions);
  return (
    <p className="mt-1 flex flex-wrap gap-x-3 text-xs text-dim">
      <Key className="bg-bar-cached" words="from the cache" />
      <Key className="bg-bar-stream" words="new" />
      {bins.some(({ broken }) => broken !== undefined) && <Key className="bg-failed" words="cache broke" />}
      {bins.some(({ prunes }) => prunes.length > 0) && (
        <IconKey words="prune">
          <span className="block h-1 w-2 rounded-full bg-accent" />
        </IconKey>
      )}
      {compactions.some((row) => !hasFailed(row)) && (
        <IconKey words="compaction">
          <ChevronsDownUp size={10} className="text-accent" />
        </IconKey>
      )}
      {compactions.some(hasFailed) && (
        <IconKey words="failed compaction">
          <ChevronsDownUp size={10} className="text-failed" />
        </IconKey>
      )}
      {pruneAtTokens !== undefined && compactAtTokens !== undefined && (
        <span>
          ┄ prunes from {shortCount(pruneAtTokens)}, compacts from {shortCount(compactAtTokens)}
        </span>
      )}
    </p>
  );
}

export const Key = ({ className, words }: Readonly<{ className: string; words: string }>): ReactNode => (
  <span className="flex items-center gap-1">
    <span className={`h-2 w-2 flex-none rounded-[2px] ${className}`} aria-hidden="true" />
    {words}
  </span>
);

const IconKey = ({ words, children }: Readonly<{ words: string; children: ReactNode }>): ReactNode => (
  <span className="flex items-center gap-1">
    <span aria-hidden="true">{children}</span>
    {words}
  </span>
);

type BarProps = Readonly<{ bin: Bin; isChosen: boolean; choose: Choose }>;

function Bar({ bin, isChosen, choose }: BarProps): ReactNode {
  const { fullest, broken, compactions, prunes } = bin;
  const { context, cachedShare } = fullest.of;
  if (context === null) return null;
  const share = context.usedTokens / context.usableTokens;
  const words = wordsOf(bin);
  const failed = compactions.some(hasFailed);
  return (
    <button
      type="button"
      className={`relative h-full max-w-6 min-w-0 flex-1 rounded-t-[2px] ${isChosen ? 'bg-chosen outline outline-accent' : 'hover:bg-hover'}`}
      title={words}
      aria-label={words}
      tabIndex={-1}
      onClick={() => choose(fullest)}
    >
      <span
        className="absolute inset-x-0 bottom-0 overflow-hidden rounded-t-[2px] bg-bar-stream"
        style={{ height: `${Math.min(100, share * 100)}%`, minHeight: 2 }}
      >
        <span
          className="absolute inset-x-0 bottom-0 bg-bar-cached"
          style={{ height: `${(cachedShare ?? 0) * 100}%` }}
        />
      </span>
      {broken !== undefined && <span className="absolute inset-x-0 bottom-0 h-1 bg-failed" />}
      {prunes.length > 0 && <span className="absolute inset-x-0 top-0 mx-auto h-1 max-w-1.5 rounded-full bg-accent" />}
      {compactions.length > 0 && (
        <span
          aria-hidden="true"
          className={`absolute top-0 left-1/2 z-[1] -translate-x-1/2 rounded-sm bg-page/85 ${failed ? 'text-failed' : 'text-accent'}`}
        >
          <ChevronsDownUp size={11} />
        </span>
      )}
    </button>
  );
}

function wordsOf({ steps, fullest, broken, compactions, prunes }: Bin): string {
  const { step, context, cachedShare } = fullest.of;
  const [first, last] = [steps[0]?.of.step ?? step, steps.at(-1)?.of.step ?? step];
  const fill =
    context === null
      ? ''
      : `Step ${count(step)}: ${count(context.usedTokens)} of ${count(context.usableTokens)} usable tokens, ${percent(context.usedTokens / context.usableTokens)}`;
  const saved = prunes.reduce((sum, { savedTokens }) => sum + savedTokens, 0);
  return [
    ...(steps.length > 1 ? [`Steps ${count(first)} to ${count(last)}; the fullest:`] : []),
    fill,
    cachedShare === null ? 'cached share unknown' : `${percent(cachedShare)} from the cache`,
    ...(broken?.cacheBreak == null
      ? []
      : [`step ${count(broken.step)}: the cache broke: ${breakWords(broken.cacheBreak)}`]),
    ...(prunes.length === 0 ? [] : [`${plural(prunes.length, 'prune')}: ${count(saved)} tokens saved`]),
    ...compactions.map((row) =>
      hasFailed(row)
        ? `compaction ${row.round} failed: ${row.error?.message ?? row.state}`
        : `compaction ${row.round}: ${count(row.tokensBefore)} tokens${row.tokensAfter === null ? '' : ` → ${count(row.tokensAfter)}`}`,
    ),
  ].join('\n');
}
