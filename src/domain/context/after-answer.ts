import type { ErrorRecord } from '../errors.ts';
import type { OverflowNumbers } from '../model/overflow-limit.ts';
import type { FinishReason, ViewMessage } from '../transcript/message.ts';
import type { Usage } from '../usage.ts';
import { decideContext, type Worth } from './decide.ts';
import { isStartedBy } from './limits/policy.ts';
import { afterCall } from './meter/after-call.ts';
import type { ContextMeter } from './meter/context-meter.ts';
import { type Lesson, lessonOfNumbers, lessonOfSuccess } from './meter/learned-limits.ts';
import type { Measurement } from './meter/measure.ts';
import { certainOf, type SilentOverflow, silentOverflow } from './meter/silent-overflow.ts';
import type { ContextState } from './meter/state.ts';
import { planOverflow, type StepPlace, withPending } from './overflow-plan.ts';

/** A whole answer with everything that was known when it was asked for. */
export type WholeAnswer = Readonly<{
  meter: ContextMeter;
  state: ContextState;
  place: StepPlace;
  /** What the model was sent, and how it was measured. */
  view: readonly ViewMessage[];
  measurement: Measurement;
  maxOutputTokens: number;
  isWindowBound: boolean;
  /** The answer as the view of the next step will hold it, outcomes of its calls included. */
  message: ViewMessage;
  usage: Usage;
  finishReason: FinishReason;
  rawFinishReason: string | null;
  /** Calls that the model asked for: with them the answer has taken effect and cannot be dropped. */
  toolCalls: number;
  worth: (view: readonly ViewMessage[], state: ContextState, usedTokens: number) => Worth;
}>;

/** What an answer means for the context. */
export type AfterAnswer = Readonly<{
  contextState: ContextState;
  /** What the view needs before the next step, should the run go on. */
  before?: 'compaction' | 'prune';
  /** The answer does not count: compact, and take the step again. */
  dropAnswer?: true;
  exhausted?: ErrorRecord;
  /** The answer was cut off for want of room: the run goes on although no tool was called. */
  isUnfinished?: true;
  /** What it taught about the endpoint's limits. */
  lesson: Lesson | null;
  /** The view after the answer is worth a prune: where the run ends, it gets one of its own. */
  isPrunable: boolean;
}>;

/**
 * Decides what an answer means for the context: what was learned from it, and whether its results fit the next request.
 * The fresh results are always kept; what is in their way is older.
 */
export function afterAnswer(answer: WholeAnswer): AfterAnswer {
  const { meter, view, usage, message } = answer;
  const lesson = wentWell(answer) ? lessonOfSuccess(meter, usage) : null;
  const silent = silentOverflow({
    usage,
    finishReason: answer.finishReason,
    rawFinishReason: answer.rawFinishReason,
    // What the call itself has shown to be larger is no limit of it.
    contextWindow: meter.isGuess || lesson !== null ? null : meter.limits.contextWindow,
    expectedInputTokens: answer.measurement.total,
    certain: certainOf(view, meter.anchorOf(answer.state), meter.model),
  });
  if (silent !== null) return afterSilentOverflow(answer, silent);
  const { state } = afterCall(meter, answer.state, { view, usage, messageSeq: message.seq });
  const isUnfinished = answer.finishReason === 'length' && answer.isWindowBound && answer.toolCalls === 0;
  if (isUnfinished && isStartedBy(meter.policy, 'overflow')) {
    const contextState = withPending(state, 'stream');
    return { contextState, before: 'compaction', isUnfinished, lesson, isPrunable: false };
  }
  return { ...nextDecision(answer, { ...state, pending: null }), lesson };
}

/** Whether the model has read all of the request and had room for its answer. */
const wentWell = ({ usage, finishReason }: WholeAnswer): boolean =>
  usage.outputTokens > 0 && finishReason !== 'length' && finishReason !== 'other';

function nextDecision(
  { meter, view, message, worth }: WholeAnswer,
  known: ContextState,
): Pick<AfterAnswer, 'contextState' | 'before' | 'isPrunable'> {
  const next = [...view, message];
  const measurement = meter.measure(next, known);
  const { usableTokens } = meter.thresholds;
  const state: ContextState = { ...known, meter: { usedTokens: measurement.total, usableTokens } };
  const decision = decideContext(meter, measurement, state, worth(next, state, measurement.total));
  if (decision.kind === 'prune') {
    return { contextState: withPending(state, 'threshold', false), before: 'prune', isPrunable: true };
  }
  if (decision.kind !== 'compact') return { contextState: state, isPrunable: false };
  const reason = decision.force ? 'tool_results' : decision.reason;
  return { contextState: withPending(state, reason, decision.force), before: 'compaction', isPrunable: false };
}

function afterSilentOverflow(answer: WholeAnswer, silent: SilentOverflow): AfterAnswer {
  const { meter, state, toolCalls } = answer;
  const lesson = lessonOfNumbers(silent.overflow);
  // What was billed is not what was sent: it says nothing about the next request.
  const unanchored: ContextState = { ...state, anchor: null };
  const isWorthless = silent.sign === 'no_answer' || silent.sign === 'cut_request';
  if (isWorthless && toolCalls === 0) return again(answer, unanchored, silent.overflow, lesson);
  if (!isStartedBy(meter.policy, 'overflow')) return { contextState: unanchored, lesson, isPrunable: false };
  const isUnfinished = silent.sign === 'window_full' && toolCalls === 0;
  return {
    contextState: withPending(unanchored, silent.sign === 'window_full' ? 'stream' : 'overflow'),
    before: 'compaction',
    ...(isUnfinished && { isUnfinished }),
    lesson,
    isPrunable: false,
  };
}

function again(
  { meter, place, maxOutputTokens }: WholeAnswer,
  state: ContextState,
  numbers: OverflowNumbers | null,
  lesson: Lesson | null,
): AfterAnswer {
  const message = 'The provider did not take the whole request';
  const plan = planOverflow({
    meter,
    state,
    place,
    remedy: 'compact',
    numbers,
    maxOutputTokens,
    hasMedia: false,
    message,
  });
  if (plan.kind === 'retry') {
    return { contextState: plan.contextState, dropAnswer: true, lesson, isPrunable: false };
  }
  const exhausted: ErrorRecord = plan.kind === 'exhausted' ? plan.error : { code: 'context_exhausted', message };
  return { contextState: state, exhausted, lesson, isPrunable: false };
}
