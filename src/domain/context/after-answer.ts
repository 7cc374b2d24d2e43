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

export type WholeAnswer = Readonly<{
  meter: ContextMeter;
  state: ContextState;
  place: StepPlace;
  view: readonly ViewMessage[];
  measurement: Measurement;
  maxOutputTokens: number;
  isWindowBound: boolean;
  /** The assistant's message as the next step's view has it, with the outcomes of its calls. */
  message: ViewMessage;
  usage: Usage;
  finishReason: FinishReason;
  rawFinishReason: string | null;
  /** Number of tool calls. An answer with calls has taken effect, so it cannot be dropped. */
  toolCalls: number;
  worth: (view: readonly ViewMessage[], state: ContextState, usedTokens: number) => Worth;
}>;

export type AfterAnswer = Readonly<{
  contextState: ContextState;
  /** Goes before the next step if the run continues. */
  before?: 'compaction' | 'prune';
  /** The answer does not count: compact, and take the step again. */
  dropAnswer?: true;
  exhausted?: ErrorRecord;
  /** The window cut the answer off: the run continues although the model called no tool. */
  isUnfinished?: true;
  /** The endpoint's limits as this answer showed them; null: nothing new. */
  lesson: Lesson | null;
  /** The view is worth a prune: if the run ends here, a maintenance run does it. */
  isPrunable: boolean;
}>;

/** Decides what follows from an answer. Its fresh results are always kept; older content makes room for them. */
export function afterAnswer(answer: WholeAnswer): AfterAnswer {
  const { meter, view, usage, message } = answer;
  const lesson = wentWell(answer) ? lessonOfSuccess(meter, usage) : null;
  const silent = silentOverflow({
    usage,
    finishReason: answer.finishReason,
    rawFinishReason: answer.rawFinishReason,
    // A guessed window, or one that this call has exceeded with success, proves no overflow.
    contextWindow: meter.isGuess || lesson !== null ? null : meter.limits.contextWindow,
    expectedInputTokens: answer.measurement.total,
    certain: certainOf(view, meter.anchorOf(answer.state), meter.model),
  });
  if (silent !== null) return afterSilentOverflow(answer, silent);
  const { state } = afterCall(meter, answer.state, {
    view,
    usage,
    messageSeq: message.seq,
    expectedTokens: answer.measurement.total,
  });
  const isUnfinished = answer.finishReason === 'length' && answer.isWindowBound && answer.toolCalls === 0;
  if (isUnfinished && isStartedBy(meter.policy, 'overflow')) {
    const contextState = withPending(state, 'stream');
    return { contextState, before: 'compaction', isUnfinished, lesson, isPrunable: false };
  }
  return { ...nextDecision(answer, { ...state, pending: null }), lesson };
}

/** Whether the model read the whole request and had room for its answer. */
const wentWell = ({ usage, finishReason }: WholeAnswer): boolean =>
  usage.outputTokens > 0 && finishReason !== 'length' && finishReason !== 'other';

function nextDecision(
  { meter, view, message, worth }: WholeAnswer,
  stored: ContextState,
): Pick<AfterAnswer, 'contextState' | 'before' | 'isPrunable'> {
  const next = [...view, message];
  const measurement = meter.measure(next, stored);
  const { usableTokens } = meter.thresholds;
  const state: ContextState = { ...stored, meter: { usedTokens: measurement.total, usableTokens } };
  const decision = decideContext(meter, measurement, state, { worth: worth(next, state, measurement.total) });
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
  // The bill does not match the request, so it cannot be an anchor.
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
