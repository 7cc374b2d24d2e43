import { afterAnswer } from '../../../src/domain/context/after-answer.ts';
import { compactedView } from '../../../src/domain/context/compaction/compacted-view.ts';
import {
  afterCompaction,
  afterFailedCompaction,
  judgeSizes,
  planAfterFailure,
} from '../../../src/domain/context/compaction/compaction-outcome.ts';
import { type CompactPlan, planCompaction } from '../../../src/domain/context/compaction/compaction-plan.ts';
import { MIN_REMOVAL_TOKENS, removalBody } from '../../../src/domain/context/compaction/middle-removal.ts';
import { planInputOf } from '../../../src/domain/context/compaction/plan-input.ts';
import { readSummary } from '../../../src/domain/context/compaction/summary-document.ts';
import { type ContextDecision, decideContext } from '../../../src/domain/context/decide.ts';
import { type ModelEntry, UNKNOWN_MODEL } from '../../../src/domain/context/limits/model-entry.ts';
import { contextPolicySchema } from '../../../src/domain/context/limits/policy.ts';
import { isCalibrated } from '../../../src/domain/context/meter/calibration.ts';
import { type ContextMeter, createContextMeter } from '../../../src/domain/context/meter/context-meter.ts';
import { estimateMessages } from '../../../src/domain/context/meter/measure.ts';
import { totalOf } from '../../../src/domain/context/meter/message-tokens.ts';
import {
  type CompactionReason,
  type ContextState,
  NEW_CONTEXT_STATE,
} from '../../../src/domain/context/meter/state.ts';
import { estimateText } from '../../../src/domain/context/meter/tokens.ts';
import { planPruneJob, withMarks } from '../../../src/domain/context/prune/prune-job.ts';
import { worthOf } from '../../../src/domain/context/prune/prune-plan.ts';
import { toModelMessages } from '../../../src/domain/model/model-messages.ts';
import type { Part, ViewMessage } from '../../../src/domain/transcript/message.ts';
import { MODEL, usageOf } from './measure-view.ts';

export type LoopOptions = Readonly<{
  contextWindow: number;
  maxOutput?: number;
  /** Tokens that the provider bills per estimated token. */
  billedPerEstimate?: number;
  policy?: unknown;
  instructions?: string;
  /** Null: the summarizer fails. */
  summarize?: (plan: CompactPlan, round: number) => string | null;
}>;

/** The record of a session. */
type History = {
  /** Every view that was sent, with its model and the number of prunes and compactions before it. */
  sent: Readonly<{ view: readonly ViewMessage[]; model: string; rewrites: number }>[];
  /** The tokens that each view was billed as. `measured` has the estimates before the calls. */
  billed: number[];
  measured: number[];
  /** Whether that measure had an anchor, and a ratio that the session itself had learned. */
  isSure: boolean[];
  /** Requests that the window would have refused. */
  refused: number;
  prunes: number;
  rounds: { plan: CompactPlan; tokensAfter: number; summaryTokens: number }[];
  failedRounds: number;
  exhausted: string | null;
};

/**
 * A session without input or output. Each step is measured, decided, pruned, compacted and learned from by the very
 * functions that the jobs call. The provider bills in proportion to the estimate, and the summarizer uses all its room.
 */
export class SessionLoop {
  view: readonly ViewMessage[] = [];
  state: ContextState = NEW_CONTEXT_STATE;
  meter: ContextMeter;
  readonly history: History = {
    sent: [],
    billed: [],
    measured: [],
    isSure: [],
    refused: 0,
    prunes: 0,
    rounds: [],
    failedRounds: 0,
    exhausted: null,
  };
  readonly #options: LoopOptions;
  readonly #estimates = new WeakMap<ViewMessage, { model: string; tokens: number }>();
  #seq = 0;
  #stepNo = 0;

  constructor(options: LoopOptions) {
    this.#options = options;
    this.meter = this.#contextMeterOf(MODEL, options.contextWindow);
  }

  #contextMeterOf(model: string, contextWindow: number): ContextMeter {
    const { maxOutput = 8_000, policy = {}, instructions = 'Be helpful.' } = this.#options;
    const entry: ModelEntry = { ...UNKNOWN_MODEL, contextWindow, maxOutput, family: 'claude', isGuessed: false };
    return createContextMeter({
      model,
      entry,
      learned: null,
      prior: null,
      policy: contextPolicySchema.parse(policy),
      instructions,
      tools: [],
      count: countOnce,
    });
  }

  /** Lets the next steps ask another model. */
  switchTo(model: string, contextWindow = this.#options.contextWindow): void {
    this.meter = this.#contextMeterOf(model, contextWindow);
  }

  /** The texts of a sent prompt, one for each message. @param at default: the last prompt */
  prompt(at = -1): string[] {
    const { view = [], model = MODEL } = this.history.sent.at(at) ?? {};
    return toModelMessages(view, { model }).map((message) => JSON.stringify(message));
  }

  say(...parts: Part[]): void {
    this.#append('user', null, parts);
  }

  /** Adds messages that were there before: from another session, or from a time without bills. */
  recall(messages: readonly ViewMessage[]): void {
    for (const { role, model, parts } of messages) this.#append(role, model, parts);
  }

  #append(role: 'user' | 'assistant', model: string | null, parts: readonly Part[]): ViewMessage {
    this.#seq++;
    const message: ViewMessage = { id: `m${this.#seq}`, seq: this.#seq, role, model, parts };
    this.view = [...this.view, message];
    return message;
  }

  /**
   * One model call with this answer and the results of its calls.
   * @returns false once the run has ended as exhausted
   */
  step(...parts: Part[]): boolean {
    this.#stepNo++;
    const proceed = this.#makeRoom();
    if (proceed === null) return false;
    const sent = this.view;
    const { meter, history } = this;
    const measurement = meter.measure(sent, this.state);
    const inputTokens = this.#bill(sent);
    const { prunes, rounds } = history;
    history.sent.push({ view: sent, model: meter.model, rewrites: prunes + rounds.length });
    history.billed.push(inputTokens);
    history.measured.push(measurement.total);
    history.isSure.push(measurement.isAnchored && isCalibrated(meter.calibrationOf(this.state)));
    if (inputTokens > meter.limits.contextWindow) history.refused++;
    const message = this.#append('assistant', meter.model, parts);
    const outputTokens = Math.ceil(this.#factor() * writtenTokens(message, meter.model));
    const after = afterAnswer({
      meter,
      state: this.state,
      place: this.#place(),
      view: sent,
      measurement,
      maxOutputTokens: proceed.maxOutputTokens,
      isWindowBound: proceed.isWindowBound,
      message,
      usage: usageOf({ inputTokens, outputTokens, totalTokens: inputTokens + outputTokens }),
      finishReason: 'stop',
      rawFinishReason: null,
      toolCalls: parts.filter(({ type }) => type === 'tool').length,
      worth: (view, state, usedTokens) => worthOf(this.meter, state, view, usedTokens),
    });
    this.state = after.contextState;
    if (after.before === 'prune') this.#prune();
    else if (after.before === 'compaction') this.#compact();
    return history.exhausted === null;
  }

  #place() {
    return { runId: 'run', stepNo: this.#stepNo };
  }

  #factor(): number {
    return this.#options.billedPerEstimate ?? 1.2;
  }

  #bill(view: readonly ViewMessage[]): number {
    const { overheadTokens, model } = this.meter;
    const estimated = view.reduce((sum, message) => sum + this.#estimateOnce(message, model), 0);
    return Math.ceil(this.#factor() * (overheadTokens.instructions + overheadTokens.tools + estimated));
  }

  /** A message never changes, so its first estimate is billed every time. */
  #estimateOnce(message: ViewMessage, model: string): number {
    const known = this.#estimates.get(message);
    if (known?.model === model) return known.tokens;
    const tokens = totalOf(estimateMessages([message], countOnce, model));
    this.#estimates.set(message, { model, tokens });
    return tokens;
  }

  /** Prunes and compacts until the request can be sent; null where it never can. */
  #makeRoom(): Extract<ContextDecision, { kind: 'proceed' }> | null {
    for (let attempts = 0; this.history.exhausted === null; attempts++) {
      if (attempts > 10) throw new Error('the context layer goes round in circles');
      const { meter, state, view } = this;
      const measurement = meter.measure(view, state);
      const decision = decideContext(meter, measurement, state, {
        worth: worthOf(meter, state, view, measurement.total),
      });
      if (decision.kind === 'proceed') return decision;
      if (decision.kind === 'prune') this.#prune();
      else if (decision.kind === 'exhausted') this.history.exhausted = decision.error.message;
      else {
        this.state = { ...state, pending: { reason: decision.reason, force: decision.force, stripMedia: false } };
        this.#compact();
      }
    }
    return null;
  }

  #prune(): void {
    const plan = planPruneJob(this.meter, this.state, this.view, true);
    this.view = withMarks(this.view, plan.marks);
    this.state = plan.contextState;
    if (plan.marks.length > 0) this.history.prunes++;
    if (plan.goesOnWith === 'compaction') this.#compact();
  }

  #compact(): void {
    const { meter, state, view, history } = this;
    const pending = state.pending ?? { reason: 'threshold', stripMedia: false };
    const base = planInputOf(meter, state, view, pending);
    const planned = planCompaction({ ...base, bodyTokens: () => meter.thresholds.summaryTokens });
    const round = history.rounds.length + 1;
    if (planned.kind === 'too_large') {
      history.exhausted = `${planned.what} ${planned.messageSeq ?? ''}`.trim();
      return;
    }
    const summarize = this.#options.summarize ?? ((plan) => fullSummary(plan, base.countText));
    const body = planned.kind === 'compact' ? summarize(planned, round) : null;
    if (planned.kind === 'compact' && body !== null && this.#accept(planned, body, round, pending.reason)) return;
    history.failedRounds++;
    const kept = base.countText(readSummary(view)?.body ?? '');
    const room = Math.max(meter.thresholds.summaryTokens, kept + MIN_REMOVAL_TOKENS);
    const removal = planCompaction({ ...base, bodyTokens: () => room });
    const { total: tokens } = meter.measure(view, state);
    const after = planAfterFailure({
      reason: pending.reason,
      tokens,
      usableTokens: meter.thresholds.usableTokens,
      isLastRung: removal.kind !== 'compact',
    });
    if (after === 'remove_middle' && removal.kind === 'compact') {
      const notice = removalBody(removal.head, removal.previousSummary?.body ?? '', room, base.countText);
      if (this.#accept(removal, notice, round, pending.reason)) return;
    }
    this.state = afterFailedCompaction(state, pending.reason, tokens);
    if (after !== 'proceed') history.exhausted = 'nothing more can be taken out';
  }

  #accept(plan: CompactPlan, body: string, round: number, reason: CompactionReason): boolean {
    const { meter, state } = this;
    const { view } = compactedView(plan, { round, body, thresholds: meter.thresholds });
    const tokensAfter = meter.measure(view, { ...state, anchor: null }).total;
    const { tokensBefore, targetTokens } = plan;
    const reductionShare = meter.thresholds.compactionReductionShare;
    if (judgeSizes({ tokensBefore, tokensAfter, targetTokens, reductionShare }) !== null) return false;
    this.#seq++;
    this.view = view.with(0, { ...(view[0] as ViewMessage), id: `m${this.#seq}`, seq: this.#seq });
    this.state = afterCompaction(meter, state, reason, tokensAfter);
    this.history.rounds.push({ plan, tokensAfter, summaryTokens: meter.count(body) });
    return true;
  }
}

const counted = new Map<string, number>();

/**
 * Every step counts the same texts, so each count is kept: these sessions have hundreds of steps in no time. A store
 * would not keep the counts.
 */
function countOnce(text: string): number {
  const tokens = counted.get(text) ?? estimateText(text);
  counted.set(text, tokens);
  return tokens;
}

/** The estimate of the model's own output: the message without the results of its calls. */
function writtenTokens(message: ViewMessage, model: string): number {
  return totalOf({ ...estimateMessages([message], countOnce, model), toolResults: 0 });
}

/** A summary that takes all the room it is given. */
function fullSummary({ bodyTokens }: CompactPlan, countReal: (text: string) => number): string {
  const heading = '## Goal\nGo on.\n## State\nUnder way.\n## Next\n';
  let body = heading;
  for (let words = bodyTokens; words > 0; words = Math.floor(words * 0.9)) {
    body = heading + 'work '.repeat(words);
    if (countReal(body) <= bodyTokens) return body;
  }
  return body;
}
