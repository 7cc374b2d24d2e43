import type { StepRow } from '@baton-run/server/client';
import { useVirtualizer } from '@tanstack/react-virtual';
import { type ReactNode, useEffect, useMemo, useRef, useState } from 'react';
import { duration, isUnreachable } from '../format.ts';
import { useKeys } from '../keys.ts';
import { Empty, Failure, SkeletonRows } from '../ui/empty.tsx';
import { Key } from './context-strip.tsx';
import { isUnusual } from './step-jumps.ts';
import { drawn, lengthMs, phasesOf, type Row } from './step-rows.ts';
import { StepTools } from './step-tools.tsx';
import { useNarrow } from './use-narrow.ts';
import { useStayAtEnd } from './use-stay-at-end.ts';
import type { StepRows } from './use-step-rows.ts';
import { WaterfallRow } from './waterfall-row.tsx';

export const ROW_PX = 28;

type Props = Readonly<{
  steps: StepRows;
  chosen: StepRow | undefined;
  choose: (row: Extract<Row, { kind: 'step' }>) => void;
}>;

/** A row for each step and attempt, and for each compaction and prune between them. */
export function Waterfall({ steps, chosen, choose }: Props): ReactNode {
  const { rows, isPending, error, retry } = steps;
  if (isPending && rows.length === 0) return <SkeletonRows rows={8} height={ROW_PX} />;
  if (error !== null && rows.length === 0) return <Failure error={error} retry={retry} />;
  if (rows.length === 0) {
    return (
      <Empty title="No step yet">
        <p>Send a message: each model call of the run gets a row here.</p>
      </Empty>
    );
  }
  return <LongList steps={steps} chosen={chosen} choose={choose} />;
}

/** The row that a person has jumped to. `no` tells two jumps to the same row apart. */
type Target = Readonly<{ key: string; no: number }>;

/** The list, with a way to what is worth a look in it. */
function LongList({ steps, chosen, choose }: Props): ReactNode {
  const { rows, error, retry } = steps;
  const [isFiltered, filter] = useState(false);
  const [target, aim] = useState<Target | null>(null);
  const isNarrow = useNarrow();
  const shown = useMemo(() => (isFiltered ? rows.filter(isUnusual) : rows), [rows, isFiltered]);
  const scaleMs = useMemo(() => scaleOf(rows), [rows]);
  const jump = (key: string): void => {
    const row = rows.find((one) => one.key === key);
    if (row === undefined) return;
    if (!isUnusual(row)) filter(false);
    aim((before) => ({ key, no: (before?.no ?? 0) + 1 }));
    // A narrow screen would show the step in place of the list.
    if (row.kind === 'step' && !isNarrow) choose(row);
  };
  return (
    <div className="flex h-full flex-col">
      <StepTools rows={rows} isFiltered={isFiltered} filter={filter} jump={jump} />
      <Axis scaleMs={scaleMs} />
      {error !== null && !isUnreachable(error) && <Failure error={error} retry={retry} />}
      {isFiltered && !shown.some(({ kind }) => kind !== 'run') && (
        <p className="px-3 py-2 text-dim">
          Nothing unusual: no step failed, waited, was taken again or lost its cache.
        </p>
      )}
      <StepList steps={{ ...steps, rows: shown }} scaleMs={scaleMs} chosen={chosen} choose={choose} target={target} />
      <Legend />
    </div>
  );
}

type ListProps = Props & Readonly<{ scaleMs: number; target: Target | null }>;

function StepList({ steps, scaleMs, chosen, choose, target }: ListProps): ReactNode {
  const { rows, show, more } = steps;
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    getItemKey: (index) => rows[index]?.key ?? index,
    overscan: 10,
    anchorTo: 'end',
    followOnAppend: true,
    scrollEndThreshold: 60,
    initialOffset: rows.length * ROW_PX,
  });
  const items = virtual.getVirtualItems();
  const [from, to] = [items[0]?.index ?? 0, items.at(-1)?.index ?? 0];
  useEffect(() => show(rows.slice(from, to + 1)), [show, rows, from, to]);
  useEffect(() => {
    if (from === 0) more?.();
  }, [from, more]);
  useStartAtEnd(rows, () => virtual.scrollToEnd());
  useStayAtEnd(scroller, { rows: rows.length, isAtEnd: true }, () => virtual.scrollToEnd());
  const move = useStepKeys(rows, chosen, choose, (index) => virtual.scrollToIndex(index));
  useChosenInSight(rows, chosen, (index) => virtual.scrollToIndex(index, { align: 'auto' }));
  useTargetInSight(rows, target, (index) => virtual.scrollToIndex(index, { align: 'center' }));
  return (
    <section
      ref={scroller}
      className="min-h-0 flex-1 overflow-auto [overflow-anchor:none]"
      aria-label="Steps"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolled region must be reached by keys.
      tabIndex={0}
      onKeyDown={move}
      data-scroller=""
    >
      <div className="relative" style={{ height: virtual.getTotalSize() }}>
        {items.map(({ index, key, start }) => {
          const row = rows[index];
          return row === undefined ? null : (
            <div
              key={key}
              className={`absolute inset-x-0 top-0 ${row.key === target?.key ? 'outline outline-accent -outline-offset-1' : ''}`}
              style={{ height: ROW_PX, transform: `translateY(${start}px)` }}
            >
              <WaterfallRow
                row={row}
                scaleMs={scaleMs}
                isChosen={chosen !== undefined && row.kind === 'step' && row.of.messageId === chosen.messageId}
                choose={choose}
              />
            </div>
          );
        })}
      </div>
    </section>
  );
}

/** The first steps replace placeholders, whose number was a guess. */
function useStartAtEnd(rows: readonly Row[], toEnd: () => void): void {
  const isRead = rows.some(isStep);
  const act = useRef(toEnd);
  useEffect(() => {
    if (isRead) act.current();
  }, [isRead]);
}

function useTargetInSight(rows: readonly Row[], target: Target | null, scrollTo: (index: number) => void): void {
  const seen = useRef<Target | null>(null);
  useEffect(() => {
    if (target === null || seen.current === target) return;
    const index = rows.findIndex(({ key }) => key === target.key);
    if (index === -1) return;
    seen.current = target;
    scrollTo(index);
  });
}

const LEGEND = [
  ['waited', 'bg-bar-wait'],
  ['claim, view, commit', 'bg-bar-own'],
  ['first token', 'bg-bar-first'],
  ['stream', 'bg-bar-stream'],
  ['tools', 'bg-bar-tool'],
  ['waits for an answer', 'border border-waiting hatched'],
  ['outcome unknown', 'unknown-bar border border-unknown'],
] as const;

const Legend = (): ReactNode => (
  <p className="flex flex-none flex-wrap gap-x-3 border-t border-line px-3 py-1 text-xs text-dim">
    {LEGEND.map(([words, className]) => (
      <Key key={words} className={className} words={words} />
    ))}
  </p>
);

type StepOfList = Extract<Row, { kind: 'step' }>;
const isStep = (row: Row): row is StepOfList => row.kind === 'step';

/** j and k everywhere, the arrows within the list: the next step and the one before. */
function useStepKeys(
  rows: readonly Row[],
  chosen: StepRow | undefined,
  choose: (row: StepOfList) => void,
  scrollTo: (index: number) => void,
): (event: React.KeyboardEvent) => void {
  const move = (by: 1 | -1): void => {
    const steps = rows.filter(isStep);
    const at = steps.findIndex((row) => row.of.messageId === chosen?.messageId);
    const next = at === -1 ? steps.at(by === 1 ? 0 : -1) : steps[at + by];
    if (next === undefined) return;
    choose(next);
    scrollTo(rows.indexOf(next));
  };
  useKeys('Session', { j: ['Next step', () => move(1)], k: ['Step before', () => move(-1)] });
  return (event) => {
    const by = ({ ArrowDown: 1, ArrowUp: -1 } as const)[event.key];
    if (by === undefined) return;
    event.preventDefault();
    move(by);
  };
}

function useChosenInSight(rows: readonly Row[], chosen: StepRow | undefined, scrollTo: (index: number) => void): void {
  const seen = useRef<string | null>(null);
  const index =
    chosen === undefined ? -1 : rows.findIndex((row) => isStep(row) && row.of.messageId === chosen.messageId);
  useEffect(() => {
    if (index === -1 || chosen === undefined || seen.current === chosen.messageId) return;
    seen.current = chosen.messageId;
    scrollTo(index);
  });
}

const LEAST_SCALE_MS = 200;
/** Nine of ten rows are shown whole. */
const SHOWN_SHARE = 0.9;

/** The duration that the width stands for. */
function scaleOf(rows: readonly Row[]): number {
  const nowMs = Date.now();
  const lengths = rows.filter(isStep).map(({ of }) => lengthMs(drawn(phasesOf(of, nowMs), 0)));
  lengths.sort((a, b) => a - b);
  const whole = lengths[Math.floor((lengths.length - 1) * SHOWN_SHARE)] ?? 0;
  return niceScale(Math.max(LEAST_SCALE_MS, whole * 1.08));
}

/** The next of 1, 2, 3, 5 with zeros. */
function niceScale(ms: number): number {
  const unit = 10 ** Math.floor(Math.log10(ms));
  return ([1, 2, 3, 5, 10].find((factor) => factor * unit >= ms) ?? 10) * unit;
}

const Axis = ({ scaleMs }: Readonly<{ scaleMs: number }>): ReactNode => (
  <div className="flex h-6 flex-none items-center border-b border-line pr-2 pl-3 text-xs text-dim">
    <span className="w-18 flex-none">Step</span>
    <span className="relative flex min-w-0 flex-1 justify-between">
      <span>0</span>
      <span>{duration(scaleMs / 2)}</span>
      <span>{duration(scaleMs)}</span>
    </span>
    <span className="w-20 flex-none text-right">Took</span>
  </div>
);
