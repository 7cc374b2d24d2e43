import type { NewEvent } from '../../run/events.ts';
import type { ViewMessage, ViewPart } from '../../transcript/message.ts';
import { decideContext } from '../decide.ts';
import type { ContextMeter } from '../meter/context-meter.ts';
import type { ContextState } from '../meter/state.ts';
import {
  type MediaStripPlan,
  type PlannedMark,
  planMediaStrip,
  planPrune,
  pruneInputOf,
  worthOf,
} from './prune-plan.ts';

export type PruneJobPlan = Readonly<{
  marks: readonly PlannedMark[];
  events: readonly NewEvent[];
  contextState: ContextState;
  goesOnWith: 'step' | 'compaction';
  savedTokens: number;
}>;

const NOTHING_STRIPPED: MediaStripPlan = { marks: [], strippedCount: 0, savedTokens: 0 };

/** From this number of failures in a row on, another view alone is no reason to try again: the summarizer is at fault. */
const FAILURES_BEFORE_GROWTH = 2;

/**
 * Plans a prune job and the work after it.
 *
 * - If a request was refused for its bytes, images and files go. If there are none, or if a client asked for the prune,
 *   tool outputs go even if no prune is due.
 * - A changed view loses its anchor. A compaction that failed once may be tried again; one that failed oftener in a row
 *   waits until the view has grown beyond its size at the last failure.
 *
 * @param goesOn the run continues: a compaction that the view still needs comes before the next step
 */
export function planPruneJob(
  meter: ContextMeter,
  state: ContextState,
  view: readonly ViewMessage[],
  goesOn: boolean,
): PruneJobPlan {
  const { thresholds, count } = meter;
  const { pending } = state;
  const ratio = meter.ratioOf(state);
  const media = pending?.stripMedia === true ? planMediaStrip({ view, count, ratio }) : NOTHING_STRIPPED;
  // The `force` of a compaction that never came must not force a prune.
  const isAsked = pending?.force === true && (pending.reason === 'manual' || pending.stripMedia);
  const prune = planPrune({
    ...pruneInputOf(meter, state, view, meter.measure(view, state).total - media.savedTokens),
    force: isAsked && media.strippedCount === 0,
  });
  const cleared = prune.kind === 'prune' ? prune : { marks: [], prunedCount: 0, savedTokens: 0, prunedTools: [] };
  const marks = [...media.marks, ...cleared.marks];
  const savedTokens = media.savedTokens + cleared.savedTokens;
  const prunedCount = marks.length;
  const mayTryAgain = state.failedCompactions < FAILURES_BEFORE_GROWTH;
  const rewritten = prunedCount > 0 ? { anchor: null, ...(mayTryAgain && { failedAtTokens: null }) } : {};
  const usedTokens = Math.max(0, meter.measure(view, state).total - savedTokens);
  const reading = { usedTokens, usableTokens: thresholds.usableTokens };
  const pruned: ContextState = { ...state, ...rewritten, pending: null, meter: reading };
  const pruneEvents: NewEvent[] =
    prunedCount > 0 ? [{ type: 'context:pruned', data: { prunedCount, savedTokens } }] : [];
  return {
    marks,
    events: [
      ...pruneEvents,
      { type: 'prune:complete', data: { prunedCount, savedTokens, prunedTools: [...cleared.prunedTools] } },
    ],
    savedTokens,
    ...(goesOn ? afterwards(meter, pruned, withMarks(view, marks)) : { goesOnWith: 'step', contextState: pruned }),
  };
}

/** The next work of a run that continues. The step itself reports a request that can never fit. */
function afterwards(
  meter: ContextMeter,
  state: ContextState,
  view: readonly ViewMessage[],
): Pick<PruneJobPlan, 'goesOnWith' | 'contextState'> {
  const measurement = meter.measure(view, state);
  const worth = { ...worthOf(meter, state, view, measurement.total), prune: () => false };
  const decision = decideContext(meter, measurement, state, { worth });
  if (decision.kind !== 'compact') return { goesOnWith: 'step', contextState: state };
  const { reason, force } = decision;
  return { goesOnWith: 'compaction', contextState: { ...state, pending: { reason, force, stripMedia: false } } };
}

export function withMarks(view: readonly ViewMessage[], marks: readonly PlannedMark[]): readonly ViewMessage[] {
  if (marks.length === 0) return view;
  const byMessage = Map.groupBy(marks, (mark) => mark.messageId);
  return view.map((message) => {
    const ofMessage = byMessage.get(message.id);
    if (ofMessage === undefined) return message;
    return { ...message, parts: message.parts.map((part, index) => markPart(part, ofMessage, index)) };
  });
}

function markPart(part: ViewPart, marks: readonly PlannedMark[], index: number): ViewPart {
  const mark = marks.find((candidate) => candidate.index === index);
  if (mark === undefined) return part;
  const { messageId: _message, index: _index, originalTokens: _tokens, ...added } = mark;
  return { ...part, marks: { ...part.marks, ...added } };
}
