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

/** What a prune job writes, and what its run goes on with. */
export type PruneJobPlan = Readonly<{
  marks: readonly PlannedMark[];
  events: readonly NewEvent[];
  contextState: ContextState;
  goesOnWith: 'step' | 'compaction';
  savedTokens: number;
}>;

const NOTHING_STRIPPED: MediaStripPlan = { marks: [], strippedCount: 0, savedTokens: 0 };

/**
 * Decides what a prune job does to the view, and what comes after it. Images and files go where a request was refused
 * for its bytes; only where there are none do tool outputs have to go that are not due, as they do when somebody asked
 * for it. A view that was rewritten has no anchor, and a compaction that failed on the larger one may be tried again.
 *
 * @param goesOn the run goes on after the prune: a compaction that the view needs all the same
 * comes before the next step
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
  // What was meant for a compaction that never came must not force a prune.
  const isAsked = pending?.force === true && (pending.reason === 'manual' || pending.stripMedia);
  const prune = planPrune({
    ...pruneInputOf(meter, state, view, meter.measure(view, state).total - media.savedTokens),
    force: isAsked && media.strippedCount === 0,
  });
  const cleared = prune.kind === 'prune' ? prune : { marks: [], prunedCount: 0, savedTokens: 0, prunedTools: [] };
  const marks = [...media.marks, ...cleared.marks];
  const savedTokens = media.savedTokens + cleared.savedTokens;
  const prunedCount = marks.length;
  const rewritten = prunedCount > 0 ? { anchor: null, failedAtTokens: null } : {};
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

/** What a run that goes on needs first. What can never fit is for the step to say. */
function afterwards(
  meter: ContextMeter,
  state: ContextState,
  view: readonly ViewMessage[],
): Pick<PruneJobPlan, 'goesOnWith' | 'contextState'> {
  const measurement = meter.measure(view, state);
  const worth = { ...worthOf(meter, state, view, measurement.total), prune: () => false };
  const decision = decideContext(meter, measurement, state, worth);
  if (decision.kind !== 'compact') return { goesOnWith: 'step', contextState: state };
  const { reason, force } = decision;
  return { goesOnWith: 'compaction', contextState: { ...state, pending: { reason, force, stripMedia: false } } };
}

/** The view as it will be read once the marks are written. */
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
