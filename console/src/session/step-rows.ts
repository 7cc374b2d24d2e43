import type { CompactionRow, PruneRow, Run, StepRow } from '@baton-run/server/client';
import type { Child, ChildrenOfCalls } from './children.ts';

export const STEPS_OF_PAGE = 100;

type OfRun = Readonly<{ key: string; run: Run }>;

/**
 * A row of the waterfall. `missing`: its steps are being read. `recovery`: its step was ended by another worker. `child`: a
 * call of the step above gave a task to another agent.
 */
export type Row = OfRun &
  (
    | Readonly<{ kind: 'run' }>
    | Readonly<{ kind: 'missing'; page: number }>
    | Readonly<{ kind: 'recovery'; of: StepRow }>
    | Readonly<{ kind: 'step'; of: StepRow }>
    | Readonly<{ kind: 'child'; of: Child }>
    | Readonly<{ kind: 'compaction'; of: CompactionRow }>
    | Readonly<{ kind: 'prune'; of: PruneRow }>
  );

export type LoadedPage = readonly (StepRow | CompactionRow | PruneRow)[];

export const pageKey = (runId: string, page: number): string => `${runId}/${page}`;

const ENDED: ReadonlySet<string> = new Set(['completed', 'failed', 'cancelled', 'incomplete']);
export const hasEnded = ({ status }: Run): boolean => ENDED.has(status);

/** The pages of a run's steps. The last one may be of a step that is not completed. */
export const pagesOf = ({ steps }: Run): number => Math.floor(steps / STEPS_OF_PAGE) + 1;

/**
 * The rows of the waterfall, oldest first.
 * @param runs newest first
 * @param pages the steps that have been read, by `pageKey`
 * @param children of these runs, as far as they have been read
 */
export function toRows(
  runs: readonly Run[],
  pages: ReadonlyMap<string, LoadedPage>,
  children: ChildrenOfCalls,
): readonly Row[] {
  return runs
    .toReversed()
    .flatMap((run): Row[] => [
      { key: run.id, run, kind: 'run' },
      ...Array.from({ length: pagesOf(run) }, (_, page) => rowsOfPage(run, page, pages, children)).flat(),
    ]);
}

function rowsOfPage(run: Run, page: number, pages: ReadonlyMap<string, LoadedPage>, children: ChildrenOfCalls): Row[] {
  const loaded = pages.get(pageKey(run.id, page));
  if (loaded === undefined) return missingRows(run, page);
  return loaded.flatMap((of): Row[] => {
    if (of.kind === 'compaction') return [{ key: `${run.id}/c${of.round}`, run, kind: 'compaction', of }];
    if (of.kind === 'prune') return [{ key: `${run.id}/p${of.at}`, run, kind: 'prune', of }];
    const key = of.messageId;
    const step: Row = { key, run, kind: 'step', of: asChildrenAre(of, children) };
    const begun = of.tools.flatMap(({ id }): Row[] => {
      const child = children.get(id);
      return child === undefined ? [] : [{ key: id, run, kind: 'child', of: child }];
    });
    return of.workers.length > 1 ? [step, { key: `${key}/r`, run, kind: 'recovery', of }, ...begun] : [step, ...begun];
  });
}

const isAsked = ({ state }: StepRow['tools'][number]): boolean =>
  state === 'awaiting_approval' || state === 'awaiting_output';

/** A step that waits for children alone is at work: it waits for no person. */
function asChildrenAre(of: StepRow, children: ChildrenOfCalls): StepRow {
  if (of.state !== 'waiting') return of;
  const tools = of.tools.map((tool) =>
    isAsked(tool) && children.get(tool.id)?.status === 'running' ? { ...tool, state: 'running' as const } : tool,
  );
  const isDelegating = tools.some((tool, index) => tool !== of.tools[index]);
  const waits = tools.some((tool) => isAsked(tool) || tool.state === 'unknown');
  return isDelegating ? { ...of, tools, state: waits ? 'waiting' : 'running' } : of;
}

function missingRows(run: Run, page: number): Row[] {
  const rest = Math.min(STEPS_OF_PAGE, run.steps - page * STEPS_OF_PAGE);
  return Array.from({ length: Math.max(1, rest) }, (_, no) => ({
    key: `${pageKey(run.id, page)}/${no}`,
    run,
    kind: 'missing',
    page,
  }));
}

/** A stretch of time of a step. The phases follow each other, the calls overlap. */
export type Phase = Readonly<{
  kind: 'wait' | 'own' | 'first' | 'stream' | 'tool' | 'unknown' | 'asked' | 'commit' | 'open';
  words: string;
  startMs: number;
  durationMs: number;
  /** Of calls that ran side by side. */
  lane: number;
}>;

const MAX_LANES = 4;

/**
 * The phases of a step, in milliseconds from the time when its work was due.
 * @param nowMs ends what has not ended
 * @param firstAtMs when the first piece of an answer came that has not ended; null: none came yet
 */
export function phasesOf(row: StepRow, nowMs: number, firstAtMs: number | null = null): readonly Phase[] {
  const phases: Phase[] = [];
  let atMs = 0;
  const add = (kind: Phase['kind'], words: string, durationMs: number | null): void => {
    if (durationMs === null) return;
    phases.push({ kind, words, startMs: atMs, durationMs, lane: 0 });
    atMs += durationMs;
  };
  add('wait', 'waited', row.waitedMs);
  const startedAtMs = Date.parse(row.startedAt) - (row.waitedMs ?? 0);
  add('own', 'claim', row.claimMs);
  add('own', 'view', row.viewMs);
  add('first', 'first token', row.firstTokenMs);
  add('stream', 'stream', row.streamMs);
  const isOpen = row.finishedAt === null;
  if (row.streamMs === null) {
    const until = (timeMs: number): number => Math.max(0, timeMs - startedAtMs - atMs);
    const isStreaming = isOpen && firstAtMs !== null;
    if (isStreaming) add('first', 'first token', until(Math.min(firstAtMs, nowMs)));
    const endMs = isOpen ? nowMs : Date.parse(row.finishedAt);
    if (isStreaming) add('stream', 'stream, so far', until(endMs));
    else add('open', isOpen ? 'at work' : 'without an answer', until(endMs));
  }
  const answeredMs = atMs;
  row.tools.forEach((tool, index) => {
    const begin = tool.startedAt === null ? answeredMs : Math.max(answeredMs, Date.parse(tool.startedAt) - startedAtMs);
    const end = tool.finishedAt === null ? (isOpen ? nowMs : null) : Date.parse(tool.finishedAt);
    phases.push({
      kind: tool.state === 'unknown' ? 'unknown' : isAsked(tool) ? 'asked' : 'tool',
      words: `${tool.toolName} (${tool.state.replaceAll('_', ' ')})`,
      startMs: begin,
      durationMs: end === null ? 0 : Math.max(0, end - startedAtMs - begin),
      lane: index % MAX_LANES,
    });
  });
  atMs = Math.max(atMs, ...phases.map(({ startMs, durationMs }) => startMs + durationMs));
  if (row.commitMs !== null && row.commitMs > 0) add('commit', 'commit', row.commitMs);
  return phases;
}

/** From the time when its work was due to the end of the last phase. */
export const lengthMs = (phases: readonly Phase[]): number =>
  Math.max(0, ...phases.map(({ startMs, durationMs }) => startMs + durationMs));

/** So much of the width may be of waiting. */
const WAIT_SHARE = 0.25;

/**
 * The phases as they are drawn: a long wait is shortened, so that the work after it stays in sight.
 * @param scaleMs the duration that the width stands for
 */
export function drawn(phases: readonly Phase[], scaleMs: number): readonly Phase[] {
  const waitedMs = phases.find(({ kind }) => kind === 'wait')?.durationMs ?? 0;
  const cutMs = Math.max(0, waitedMs - scaleMs * WAIT_SHARE);
  if (cutMs === 0) return phases;
  return phases.map((phase) =>
    phase.kind === 'wait'
      ? { ...phase, durationMs: phase.durationMs - cutMs }
      : { ...phase, startMs: phase.startMs - cutMs },
  );
}
