import type { CompactionRow, PruneRow, Run, StepRow } from '@baton-run/server/client';
import { ChevronsDownUp, Scissors, X } from 'lucide-react';
import { memo, type ReactNode } from 'react';
import { useNow } from '../clock.ts';
import { cost, count, duration, percent, plural, shortCount } from '../format.ts';
import { Id } from '../ui/copy.tsx';
import { State } from '../ui/state.tsx';
import { Time } from '../ui/time.tsx';
import { ChildLine } from './child-row.tsx';
import { causeWords, hasFailed } from './context-bins.ts';
import { breakWords } from './context-strip.tsx';
import { useFirstPieceMs } from './session-context.tsx';
import { drawn, hasEnded, lengthMs, type Phase, phasesOf, type Row } from './step-rows.ts';

type StepOfList = Extract<Row, { kind: 'step' }>;
type Props = Readonly<{ row: Row; scaleMs: number; isChosen: boolean; choose: (row: StepOfList) => void }>;

export const WaterfallRow = memo(function WaterfallRow({ row, scaleMs, isChosen, choose }: Props): ReactNode {
  switch (row.kind) {
    case 'run':
      return <RunLine run={row.run} />;
    case 'missing':
      return (
        <div aria-hidden="true" className="flex h-full items-center px-3">
          <span className="skeleton h-2 w-1/2" />
        </div>
      );
    case 'recovery':
      return <RecoveryLine row={row.of} />;
    case 'compaction':
      return <CompactionLine row={row.of} />;
    case 'prune':
      return <PruneLine row={row.of} />;
    case 'child':
      return <ChildLine child={row.of} />;
    case 'step':
      return <StepLine row={row} scaleMs={scaleMs} isChosen={isChosen} choose={choose} />;
  }
});

const Line = ({ children, label }: Readonly<{ children: ReactNode; label?: string }>): ReactNode => (
  <div className="flex h-full items-center gap-2 overflow-hidden whitespace-nowrap px-3 text-sm text-dim" title={label}>
    {children}
  </div>
);

function RunLine({ run }: Readonly<{ run: Run }>): ReactNode {
  return (
    <div className="flex h-full items-center gap-2 overflow-hidden whitespace-nowrap border-t border-line bg-panel px-3 text-sm">
      <span className="flex-none">
        <State state={run.status} />
      </span>
      <Id id={run.id} chars={6} />
      {run.kind === 'maintenance' && <span className="flex-none text-dim">maintenance</span>}
      <span className="flex-1" />
      <span
        className="min-w-0 truncate text-dim"
        title={run.usage.totalTokens === 0 ? undefined : `${count(run.usage.totalTokens)} tokens`}
      >
        {plural(run.steps, 'step')}
        {run.childCount > 0 && ` · ${plural(run.childCount, 'task')}`} · {cost(run.costUsd)}
      </span>
      <span className="flex-none text-dim">
        <Time at={run.createdAt} />
      </span>
    </div>
  );
}

const shortWorker = (id: string | undefined): string => (id === undefined ? '?' : `…${id.slice(-6)}`);

const RecoveryLine = ({ row }: Readonly<{ row: StepRow }>): ReactNode => (
  <Line label={`Worker ${row.workers[0]} began it, worker ${row.workers[1]} ended it`}>
    <span className="w-18 flex-none" />
    <span>
      recovered: worker <Id id={row.workers[0] ?? ''} chars={6} /> → <Id id={row.workers[1] ?? ''} chars={6} />
    </span>
    <span className="sr-only">{`${shortWorker(row.workers[0])} to ${shortWorker(row.workers[1])}`}</span>
  </Line>
);

function CompactionLine({ row }: Readonly<{ row: CompactionRow }>): ReactNode {
  const { tokensBefore, tokensAfter, round, startedAt, finishedAt, reason, strategy, error, state, costUsd, adapted } =
    row;
  const failed = hasFailed(row);
  const label = [
    `Compaction ${round}${failed ? ' failed' : ''}, ${strategy}: ${reason.replaceAll('_', ' ')}`,
    `${count(tokensBefore)} tokens before${tokensAfter === null ? '' : `, ${count(tokensAfter)} after`}`,
    ...(error === null ? [] : [error.message]),
    ...(adapted === null ? [] : [`Made again: ${adapted}`]),
    `Cost: ${cost(costUsd)}`,
  ].join('\n');
  const numbers = (
    <span className="flex-none">
      {costUsd !== 0 && `${cost(costUsd)} · `}
      {finishedAt === null ? state : duration(Date.parse(finishedAt) - Date.parse(startedAt))}
    </span>
  );
  if (failed) {
    return (
      <Line label={label}>
        <span className="flex w-18 flex-none items-center gap-1 text-failed">
          <X size={12} strokeWidth={3} aria-hidden="true" /> failed
        </span>
        <span className="min-w-0 flex-1 truncate text-failed">
          compaction {round}: {causeWords(error)}
        </span>
        {numbers}
      </Line>
    );
  }
  return (
    <Line label={label}>
      <span className="flex w-18 flex-none items-center gap-1 text-accent">
        <ChevronsDownUp size={12} aria-hidden="true" /> no. {round}
      </span>
      <span className="min-w-0 flex-1 truncate">
        compaction {shortCount(tokensBefore)} → {tokensAfter === null ? '…' : shortCount(tokensAfter)} tokens ·{' '}
        {reason.replaceAll('_', ' ')}
        {adapted !== null && ` · made again: ${adapted}`}
      </span>
      {numbers}
    </Line>
  );
}

const PruneLine = ({ row }: Readonly<{ row: PruneRow }>): ReactNode => (
  <Line
    label={`Prune: ${plural(row.prunedCount, 'output')} of ${row.prunedTools.join(', ')}, ${count(row.savedTokens)} tokens saved`}
  >
    <span className="flex w-18 flex-none items-center gap-1 text-accent">
      <Scissors size={12} aria-hidden="true" /> prune
    </span>
    <span className="min-w-0 flex-1 truncate">
      {plural(row.prunedCount, 'output')} · {shortCount(row.savedTokens)} tokens saved · {row.prunedTools.join(', ')}
    </span>
    <span className="flex-none">
      <Time at={row.at} />
    </span>
  </Line>
);

const DOTS: Readonly<Record<StepRow['state'], string>> = {
  running: 'text-running dot live',
  waiting: 'text-waiting dot',
  completed: 'text-dim dot',
  retried: 'text-failed dot hollow',
  superseded: 'text-cancelled dot hollow',
  cancelled: 'text-cancelled dot',
  failed: 'text-failed dot',
};

function StepLine({ row, scaleMs, isChosen, choose }: Omit<Props, 'row'> & Readonly<{ row: StepOfList }>): ReactNode {
  const { of } = row;
  const isOpen = of.finishedAt === null && !hasEnded(row.run);
  return (
    <button
      type="button"
      className={`flex h-full w-full items-center pr-2 pl-3 text-left hover:bg-hover ${isChosen ? 'bg-chosen' : ''}`}
      aria-current={isChosen}
      data-step={of.step}
      onClick={() => choose(row)}
    >
      <span className="flex w-18 flex-none items-center gap-1.5 text-sm">
        <span className={DOTS[of.state]} aria-hidden="true" />
        <span className="sr-only">{`${of.state} step`}</span>
        {count(of.step)}
        {of.attempt > 1 && <span className="text-xs text-dim">try {of.attempt}</span>}
      </span>
      {isOpen ? (
        <LiveBars row={of} scaleMs={scaleMs} />
      ) : (
        <Bars row={of} nowMs={Date.parse(of.finishedAt ?? of.startedAt)} scaleMs={scaleMs} />
      )}
    </button>
  );
}

function LiveBars({ row, scaleMs }: Readonly<{ row: StepRow; scaleMs: number }>): ReactNode {
  const nowMs = useNow();
  const firstAtMs = useFirstPieceMs(row.messageId);
  return <Bars row={row} nowMs={nowMs} firstAtMs={firstAtMs} scaleMs={scaleMs} />;
}

const FILLS: Readonly<Record<Phase['kind'], string>> = {
  wait: 'bg-bar-wait',
  own: 'bg-bar-own',
  first: 'bg-bar-first',
  stream: 'bg-bar-stream',
  tool: 'bg-bar-tool',
  unknown: 'unknown-bar border border-unknown',
  asked: 'border border-waiting hatched',
  commit: 'bg-bar-own',
  open: 'bg-bar-first',
};

type BarsProps = Readonly<{ row: StepRow; nowMs: number; firstAtMs?: number | null; scaleMs: number }>;

function Bars({ row, nowMs, firstAtMs = null, scaleMs }: BarsProps): ReactNode {
  const phases = phasesOf(row, nowMs, firstAtMs);
  const wholeMs = lengthMs(phases);
  const shown = drawn(phases, scaleMs);
  const shownMs = lengthMs(shown);
  const isLonger = shownMs > scaleMs * 1.001;
  const lanes = Math.max(1, ...phases.map(({ lane }) => lane + 1));
  const title = [
    ...phases.map(({ words, durationMs }) => `${words}: ${duration(durationMs)}`),
    ...(row.usage === null ? [] : [`${count(row.usage.inputTokens)} tokens in, ${count(row.usage.outputTokens)} out`]),
    ...(row.cachedShare === null ? [] : [`${percent(row.cachedShare)} from the cache`]),
    ...(row.cacheBreak === null ? [] : [`the cache broke: ${breakWords(row.cacheBreak)}`]),
  ].join('\n');
  return (
    <>
      <span className="relative h-full min-w-0 flex-1 overflow-hidden" title={title}>
        {shown.map((phase, index) => (
          <span
            // biome-ignore lint/suspicious/noArrayIndexKey: phases are only appended.
            key={index}
            className={`absolute rounded-[2px] ${FILLS[phase.kind]}`}
            style={placeOf(phase, scaleMs, lanes)}
          />
        ))}
        <ToolNames row={row} shownMs={shownMs} scaleMs={scaleMs} />
        {isLonger && <span className="absolute inset-y-0 right-0 flex items-center bg-page px-0.5 text-dim">›</span>}
      </span>
      <span className="w-20 flex-none text-right text-sm whitespace-nowrap text-dim">{duration(wholeMs)}</span>
    </>
  );
}

const isCall = ({ kind }: Phase): boolean => kind === 'tool' || kind === 'unknown' || kind === 'asked';

function placeOf(phase: Phase, scaleMs: number, lanes: number) {
  const heightPx = isCall(phase) ? 14 / lanes : 14;
  return {
    left: `${(phase.startMs / scaleMs) * 100}%`,
    width: `max(${isCall(phase) ? 3 : 1}px, ${(phase.durationMs / scaleMs) * 100}%)`,
    top: 7 + (isCall(phase) ? phase.lane * heightPx : 0),
    height: Math.max(2, heightPx - (isCall(phase) && lanes > 1 ? 1 : 0)),
  };
}

function callsOf({ tools }: StepRow): string {
  const names = Map.groupBy(tools, ({ toolName }) => toolName);
  return [...names].map(([name, calls]) => (calls.length > 1 ? `${name} ×${calls.length}` : name)).join(', ');
}

/** How a step ended that did not end as a step should; null: it did, or it is at work. */
function outcomeOf({ error, state }: StepRow): string | null {
  if (state === 'superseded') return 'its worker stopped: taken again';
  return error === null ? null : error.code.replaceAll('_', ' ');
}

/** Beside the bars where there is room; an outcome that is no success always. */
function ToolNames({ row, shownMs, scaleMs }: Readonly<{ row: StepRow; shownMs: number; scaleMs: number }>): ReactNode {
  const share = shownMs / scaleMs;
  const outcome = outcomeOf(row);
  if (share > 0.8 && outcome === null) return null;
  const words = outcome ?? callsOf(row);
  return (
    <span
      className={`absolute inset-y-0 right-0 flex items-center truncate text-xs ${row.error === null ? 'text-dim' : 'text-failed'}`}
      style={share > 0.8 ? undefined : { left: `calc(${share * 100}% + 6px)` }}
    >
      <span className={`truncate ${share > 0.8 ? 'bg-page/85 px-1' : ''}`}>
        {words}
        {row.cacheBreak !== null && (
          <span className="text-waiting">
            {words !== '' && ' · '}cache broke: {row.cacheBreak}
          </span>
        )}
      </span>
    </span>
  );
}
