import type { StepRow } from '@baton-run/server/client';
import type { ReactNode } from 'react';
import { count, duration, exactTime, percent } from '../format.ts';
import { Id } from '../ui/copy.tsx';
import { breakWords } from './context-strip.tsx';

/** US dollars with all digits that matter. */
const exactCost = (costUsd: number): string => `$${costUsd.toFixed(6).replace(/0{1,4}$/, '')}`;

/** The tokens, the cost, the context and the times of a step. */
export function UsageTab({ row }: Readonly<{ row: StepRow }>): ReactNode {
  const { usage, context, cachedShare, cacheBreak, costUsd, workers } = row;
  return (
    <div className="flex flex-col gap-4">
      <Figures words="Tokens, as the provider billed them">
        {usage === null ? (
          <Figure words="Not billed yet" value="" />
        ) : (
          <>
            <Figure words="in" value={`${count(usage.inputTokens)} tokens`} />
            <Figure words="read from the cache" value={`${count(usage.cacheReadTokens)} tokens`} />
            <Figure words="written to the cache" value={`${count(usage.cacheWriteTokens)} tokens`} />
            <Figure words="out" value={`${count(usage.outputTokens)} tokens`} />
            <Figure words="thoughts within" value={`${count(usage.reasoningTokens)} tokens`} />
          </>
        )}
        <Figure words="cost" value={costUsd === null ? 'unknown: the model has no known price' : exactCost(costUsd)} />
      </Figures>
      <Figures words="Context">
        {context === null ? (
          <Figure words="Not measured" value="" />
        ) : (
          <>
            <Figure words="request, as measured before it was sent" value={`${count(context.usedTokens)} tokens`} />
            <Figure words="usable" value={`${count(context.usableTokens)} tokens`} />
            <Figure words="filled" value={percent(context.usedTokens / context.usableTokens)} />
          </>
        )}
        {cachedShare !== null && <Figure words="cached share" value={percent(cachedShare)} />}
        {cacheBreak !== null && <Figure words="the cache broke" value={breakWords(cacheBreak)} />}
      </Figures>
      <Figures words="Time">
        <Phases row={row} />
      </Figures>
      <Figures words="Workers">
        {workers.map((worker, index) => (
          <Figure key={worker} words={index === 0 ? 'worker' : 'recovered by'} value={<Id id={worker} chars={12} />} />
        ))}
        <Figure words="message" value={<Id id={row.messageId} />} />
        <Figure words="model" value={row.model ?? 'not known yet'} />
        <Figure words="ended by" value={row.finishReason ?? (row.finishedAt === null ? 'at work' : 'no answer')} />
      </Figures>
    </div>
  );
}

const PHASES = [
  ['waited', 'waitedMs'],
  ['claim', 'claimMs'],
  ['view: until the request was ready', 'viewMs'],
  ['time to the first token', 'firstTokenMs'],
  ['stream', 'streamMs'],
  ['commit', 'commitMs'],
] as const;

function Phases({ row }: Readonly<{ row: StepRow }>): ReactNode {
  return (
    <>
      {PHASES.map(([words, field]) => (
        <Figure key={field} words={words} value={row[field] === null ? 'not known' : duration(row[field])} />
      ))}
      <Figure
        words="began"
        value={<span title={exactTime(row.startedAt)}>{exactTime(row.startedAt).split('\n')[0]}</span>}
      />
      {row.finishedAt !== null && (
        <Figure
          words="ended"
          value={<span title={exactTime(row.finishedAt)}>{exactTime(row.finishedAt).split('\n')[0]}</span>}
        />
      )}
      {row.nextAttemptAt !== null && (
        <Figure words="next attempt" value={exactTime(row.nextAttemptAt).split('\n')[0]} />
      )}
    </>
  );
}

export const Figures = ({ words, children }: Readonly<{ words: string; children: ReactNode }>): ReactNode => (
  <section>
    <h3 className="mb-1 text-sm text-dim">{words}</h3>
    <dl className="grid grid-cols-[minmax(0,1fr)_auto] gap-x-4">{children}</dl>
  </section>
);

export const Figure = ({ words, value }: Readonly<{ words: ReactNode; value: ReactNode }>): ReactNode => (
  <div className="contents">
    <dt className="text-dim">{words}</dt>
    <dd className="min-w-0 text-right wrap-anywhere">{value}</dd>
  </div>
);
