import type { ContextMeter } from '@baton-run/server/client';
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { count, percent, shortCount } from '../format.ts';
import { Failure } from '../ui/empty.tsx';
import { Key } from './context-strip.tsx';
import { contextQuery, useOpened } from './session-context.tsx';

const FILLS: Readonly<Record<string, string>> = {
  instructions: 'bg-bar-own',
  tools: 'bg-strong-line',
  summary: 'bg-unknown',
  user: 'bg-accent',
  assistant: 'bg-bar-stream',
  reasoning: 'bg-bar-first',
  toolCalls: 'bg-bar-cached',
  toolResults: 'bg-bar-tool',
};
const fillOf = (kind: string): string => FILLS[kind] ?? 'bg-bar-wait';
const kindWords = (kind: string): string => kind.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);

/** A line that shows the size of the next request by kinds of tokens, and the thresholds of prunes and compactions. */
export function ContextLine(): ReactNode {
  const { sessionId } = useOpened();
  const { data } = useQuery(contextQuery(sessionId));
  if (data === undefined) return <span className="skeleton h-2 w-40" aria-hidden="true" />;
  const { used, usable, share } = data;
  const least = isLeast(data) ? 'at least ' : '';
  return (
    <span className="flex min-w-0 items-center gap-2">
      <span className="w-32 flex-none sm:w-48">
        <Meter meter={data} />
      </span>
      <span
        className="whitespace-nowrap"
        title={`${least}${count(used)} of ${count(usable)} usable tokens${data.guessed ? '; the window is a guess' : ''}`}
      >
        {least}
        {percent(share)} <span className="text-dim">of {shortCount(usable)} tokens</span>
      </span>
    </span>
  );
}

/** Whether more is used than the meter could measure. */
const isLeast = ({ complete, anchor }: ContextMeter): boolean => !complete && anchor === null;

function Meter({ meter }: Readonly<{ meter: ContextMeter }>): ReactNode {
  const { byKind, usable, thresholds, used } = meter;
  const [pruneAt, compactAt] = [thresholds['pruneAtTokens'], thresholds['compactAtTokens']];
  return (
    <span
      className="relative flex h-2.5 overflow-hidden rounded-[3px] bg-bar-wait"
      role="img"
      aria-label={`Context: ${count(used)} of ${count(usable)} usable tokens`}
    >
      {kindsOf(byKind).map(([kind, tokens]) => (
        <span
          key={kind}
          className={fillOf(kind)}
          style={{ width: `${(tokens / usable) * 100}%` }}
          title={`${kindWords(kind)}: ${count(tokens)} tokens`}
        />
      ))}
      <Tick at={pruneAt} usable={usable} words="prunes from" />
      <Tick at={compactAt} usable={usable} words="compacts from" />
    </span>
  );
}

const Tick = ({ at, usable, words }: Readonly<{ at: number | undefined; usable: number; words: string }>): ReactNode =>
  at === undefined || at > usable ? null : (
    <span
      className="absolute inset-y-0 w-px bg-ink"
      style={{ left: `${(at / usable) * 100}%` }}
      title={`${words} ${count(at)} tokens`}
    />
  );

const kindsOf = (byKind: Readonly<Record<string, number>>): [string, number][] =>
  Object.entries(byKind).filter(([, tokens]) => tokens > 0);

/** The same as a table, with the thresholds. */
export function ContextTable(): ReactNode {
  const { sessionId } = useOpened();
  const { data, error, refetch } = useQuery(contextQuery(sessionId));
  if (error !== null && data === undefined) return <Failure error={error} retry={() => void refetch()} />;
  if (data === undefined) return null;
  const { byKind, usable, used, window, guessed, thresholds, anchor, strategy } = data;
  return (
    <div className="flex flex-col gap-2">
      <Meter meter={data} />
      <dl className="grid grid-cols-[1fr_auto_auto] gap-x-3">
        {kindsOf(byKind).map(([kind, tokens]) => (
          <Figure
            key={kind}
            words={<Key className={fillOf(kind)} words={kindWords(kind)} />}
            tokens={tokens}
            of={usable}
          />
        ))}
        <Figure words="next request" tokens={used} of={usable} />
        <Figure words={guessed ? 'window, a guess' : 'window'} tokens={window} />
        <Figure words="usable" tokens={usable} />
        <Figure words="prunes from" tokens={thresholds['pruneAtTokens']} of={usable} />
        <Figure words="compacts from" tokens={thresholds['compactAtTokens']} of={usable} />
      </dl>
      {!data.complete && (
        <p className="text-sm text-waiting">
          The session is very long: only its newest 2,000 messages were measured.
          {isLeast(data) && ' More tokens are used than these.'}
        </p>
      )}
      <p className="text-sm text-dim">
        Strategy {strategy}.{' '}
        {anchor === null
          ? 'The size is an estimate: no call has been billed since.'
          : `The size rests on the provider's bill for message ${count(anchor.messageSeq)}.`}
      </p>
    </div>
  );
}

type FigureProps = Readonly<{ words: ReactNode; tokens: number | undefined; of?: number }>;

const Figure = ({ words, tokens, of }: FigureProps): ReactNode =>
  tokens === undefined ? null : (
    <div className="contents">
      <dt className="text-dim">{words}</dt>
      <dd className="text-right">{count(tokens)} tokens</dd>
      <dd className="w-12 text-right text-dim">{of === undefined ? '' : percent(tokens / of)}</dd>
    </div>
  );
