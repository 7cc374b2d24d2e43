import { runClaimed } from '../claims/claimed-job.ts';
import { contextMeterOf, knownModel, offeredTools } from '../claims/context-meter.ts';
import type { JobScope } from '../claims/job-scope.ts';
import { afterEvent } from '../commands/after-commit.ts';
import {
  type AfterFailure,
  afterFailedCompaction,
  afterPassingFailure,
  planAfterFailure,
  planSummaryRetry,
} from '../domain/context/compaction/compaction-outcome.ts';
import type { CompactionPlan, CompactPlan, TooLarge } from '../domain/context/compaction/compaction-plan.ts';
import { planInputOf } from '../domain/context/compaction/plan-input.ts';
import { exhausted, MAX_COMPACTIONS_WITHOUT_STEP } from '../domain/context/decide.ts';
import { isModuleStrategy } from '../domain/context/limits/policy.ts';
import type { Measurement } from '../domain/context/meter/measure.ts';
import type { ContextState } from '../domain/context/meter/state.ts';
import { BatonError, type ErrorRecord, withProvider } from '../domain/errors.ts';
import type { RetryPlan } from '../domain/model/retry-policy.ts';
import type { JobPayload } from '../domain/run/job.ts';
import type { ViewMessage } from '../domain/transcript/message.ts';
import { abortAfter } from '../platform/abort-after.ts';
import { inSpan } from '../platform/tracing.ts';
import type { JobOutcome } from '../queues/job-queue.ts';
import { postponementIn, postponementOf } from '../step/endings/end-unasked.ts';
import { beginCompaction } from '../store/work/maintenance.ts';
import { pauseLeftMs } from '../store/work/provider-pauses.ts';
import { type CompactionEnding, endCompaction, failedRound } from './end-compaction.ts';
import { summarizerOf } from './requests.ts';
import { type Result, resultOf, writeResult } from './result.ts';
import { middleRemoval } from './strategies/middle-removal.ts';
import { strategyOf } from './strategies/strategies.ts';
import type { Strategy } from './strategy.ts';
import { type CompactionDeps, type CompactionWork, nothingSpent } from './work.ts';

/** Longest time of one compaction with all its model calls. The session waits for it. */
const MAX_COMPACTION_MS = 120_000;

/** The state of a compaction before it is planned. */
type Setting = Readonly<{
  deps: CompactionDeps;
  scope: JobScope;
  view: readonly ViewMessage[];
  pending: NonNullable<ContextState['pending']>;
  work: Omit<CompactionWork, 'round' | 'signal'>;
  /** The next request, measured as the trigger measured it. */
  measurement: Measurement;
}>;

/**
 * Executes one compaction job: plan, let the strategy write the summary, judge it, and commit it with the next work. A
 * failed round changes only its own row; the run goes on if the old view still fits.
 * @throws errors of an unavailable database: the run stays claimed and is recovered
 */
export function runCompaction(deps: CompactionDeps, job: JobPayload, jobSignal: AbortSignal): Promise<JobOutcome> {
  return runClaimed(deps, job, jobSignal, (scope, { view }) =>
    inSpan('compaction', {}, async () => {
      if (view !== null) return compact(await settingOf(deps, scope, view));
      const contextState = { ...scope.contextState, pending: null };
      return endCompaction(deps, scope, { contextState, events: [], compaction: null });
    }),
  );
}

async function settingOf(deps: CompactionDeps, scope: JobScope, view: readonly ViewMessage[]): Promise<Setting> {
  const model = await knownModel(deps, deps.models(scope.agent.model), scope.tenantId);
  const { resolved } = model;
  const tools = await offeredTools(deps, scope.agent, model, view);
  const meter = await contextMeterOf(scope.agent, model, tools);
  const pending = scope.contextState.pending ?? { reason: 'threshold', force: false, stripMedia: false };
  const measurement = meter.measure(view, scope.contextState);
  const base = planInputOf(meter, scope.contextState, view, pending);
  const work = {
    deps,
    scope,
    view,
    base,
    resolved,
    tools,
    meter,
    failures: pending.failures ?? 0,
    spent: nothingSpent(),
  };
  return { deps, scope, view, pending, work, measurement };
}

async function compact(setting: Setting): Promise<void> {
  const { scope, work, pending } = setting;
  const { compactionsSinceStep } = scope.contextState;
  if (pending.reason !== 'manual' && compactionsSinceStep >= MAX_COMPACTIONS_WITHOUT_STEP) {
    return endExhausted(setting, `${compactionsSinceStep} compactions in a row did not help: it is larger`);
  }
  const strategy = strategyOf(work.meter.policy.compaction.strategy, setting.deps.loadCompactor);
  const plan = strategy.plan(work.base);
  if (plan.kind === 'compact') return carryOut(setting, strategy, plan);
  if (plan.kind === 'too_large') return endExhausted(setting, describe(plan));
  const removal = middleRemoval.plan(work.base);
  const after = planAfterFailure({ ...failureOf(setting), isLastRung: removal.kind !== 'compact' });
  if (after === 'remove_middle' && removal.kind === 'compact') return carryOut(setting, middleRemoval, removal);
  if (after === 'proceed') return endWithout(setting);
  return endExhausted(setting, 'Nothing more can be taken out, and the context is larger');
}

function failureOf({ pending, work, measurement }: Setting) {
  return { reason: pending.reason, tokens: measurement.total, usableTokens: work.meter.thresholds.usableTokens };
}

async function carryOut(setting: Setting, strategy: Strategy, plan: CompactPlan): Promise<void> {
  const { deps, scope, pending, work } = setting;
  const asksNoModel = strategy.name === middleRemoval.name || isModuleStrategy(strategy.name);
  const pausedMs = asksNoModel ? 0 : await summarizerPausedMs(work);
  if (pausedMs > 0) return endPostponed(setting, pausedMs);
  const id = deps.newId();
  const { fromSeq, uptoSeq, tokensBefore } = plan;
  const { reason } = pending;
  const modelLimit = work.meter.limits.contextWindow;
  const round = { id, strategy: strategy.name, reason, fromSeq, uptoSeq, tokensBefore, modelLimit };
  const compaction = await beginCompaction(deps.db, scope.fence, round);
  if (compaction === null) throw new BatonError('fenced', 'another worker has the run');
  afterEvent(deps, scope.sessionId, compaction);
  using timeout = abortAfter(deps.compactionTimeoutMs ?? MAX_COMPACTION_MS);
  const signal = AbortSignal.any([scope.held.signal, timeout.signal]);
  const whole: CompactionWork = { ...work, round: compaction.round, signal };
  const result = await resultOf(whole, strategy, plan);
  if (mayNotWrite(scope)) return;
  // `await` keeps the time limit in force until the result is written.
  if (result.kind === 'accepted') return await writeResult(whole, { id, reason, strategy, result });
  return await afterFailure(setting, whole, { strategy, id, failed: result });
}

/** Lost: this worker may not write. Shutdown: the next worker begins anew. */
function mayNotWrite({ held }: JobScope): boolean {
  return held.stopped() === 'lost' || held.stopped() === 'shutdown';
}

type Failed = Exclude<Result, { kind: 'accepted' }>;
type FailedRung = Readonly<{ strategy: Strategy; id: string; failed: Failed }>;

async function afterFailure(
  setting: Setting,
  work: CompactionWork,
  { strategy, id, failed }: FailedRung,
): Promise<void> {
  const { scope, pending } = setting;
  const isCancelled = scope.held.stopped() === 'cancelled';
  const removal: CompactionPlan = middleRemoval.plan(work.base);
  const isLastRung = strategy.name === 'middle-removal' || removal.kind !== 'compact';
  const after = isCancelled ? 'proceed' : planAfterFailure({ ...failureOf(setting), isLastRung });
  const ending = failedEnding(setting, work, { strategy, id, failed });
  const retry = await retryOf(work, after, failed);
  if (retry.retry) return endForRetry(setting, ending, retry.delayMs, failed.error);
  if (after === 'remove_middle' && removal.kind === 'compact') {
    const result = await resultOf(work, middleRemoval, removal);
    if (mayNotWrite(scope)) return;
    const written = { id, reason: pending.reason, strategy: middleRemoval };
    if (result.kind === 'accepted') return writeResult(work, { ...written, result });
  }
  if (after === 'proceed') return endCompaction(setting.deps, scope, ending);
  const record = exhaustedRecord(
    setting,
    `${failed.error.message.replace(/\.$/, '')}. Without a compaction it is larger`,
  );
  return endCompaction(setting.deps, scope, { ...ending, exhausted: withProvider(record, failed.error) });
}

async function retryOf(work: CompactionWork, after: AfterFailure, failed: Failed): Promise<RetryPlan> {
  const failedCall = failed.kind === 'failed' ? failed.failedCall : undefined;
  const pausedMs = after === 'proceed' ? 0 : await summarizerPausedMs(work);
  return planSummaryRetry({ after, failedCall, failures: work.failures, pausedMs, jitter: work.deps.random() });
}

function failedEnding(
  setting: Setting,
  { spent, round }: CompactionWork,
  { strategy, id, failed }: FailedRung,
): CompactionEnding {
  const state = failed.kind === 'rejected' ? 'rejected' : 'failed';
  const tokensAfter = failed.kind === 'rejected' ? failed.tokensAfter : undefined;
  const { error } = failed;
  const tokensBefore = setting.measurement.total;
  return {
    contextState: failedState(setting),
    events: [...spent.adapted, { type: 'compaction:failed', data: { error, attempts: spent.calls } }],
    compaction: failedRound({ id, state, spent, error, strategy: strategy.name, tokensAfter }),
    sizes: { round, tokensBefore, ...(tokensAfter !== undefined && { tokensAfter }) },
  };
}

/** Postpones the same compaction to a new round, when the provider may answer again. */
function endForRetry({ deps, scope, pending }: Setting, ending: CompactionEnding, delayMs: number, error: ErrorRecord) {
  const contextState = afterPassingFailure(scope.contextState, pending);
  return endCompaction(deps, scope, { ...ending, contextState, postponed: postponementIn(scope, delayMs, error) });
}

/** Time until the summarizer's pause ends. 0 if the summarizer is unavailable: the strategy reports that. */
async function summarizerPausedMs(work: Setting['work']): Promise<number> {
  const summarizer = await summarizerOf(work).catch((error: unknown) => {
    if (error instanceof BatonError) return null;
    throw error;
  });
  return summarizer === null ? 0 : pauseLeftMs(work.deps.db, summarizer.resolved, work.scope.tenantId);
}

/** Postpones the compaction to the end of the pause. No round began, so none is counted. */
function endPostponed({ deps, scope }: Setting, pausedMs: number): Promise<void> {
  const postponed = postponementOf(deps, scope, pausedMs);
  return endCompaction(deps, scope, { contextState: scope.contextState, events: [], compaction: null, postponed });
}

/** Nothing to replace, but the view fits: the run goes on, and compacts once the view has grown. */
function endWithout(setting: Setting): Promise<void> {
  return endCompaction(setting.deps, setting.scope, {
    contextState: failedState(setting),
    events: [],
    compaction: null,
  });
}

function endExhausted(setting: Setting, what: string): Promise<void> {
  const error = exhaustedRecord(setting, what);
  return endCompaction(setting.deps, setting.scope, {
    contextState: failedState(setting),
    events: [{ type: 'compaction:failed', data: { error, attempts: 0 } }],
    compaction: null,
    exhausted: error,
  });
}

function exhaustedRecord({ work, measurement, pending }: Setting, what: string): ErrorRecord {
  const isRefused = pending.reason === 'overflow' && measurement.total <= work.meter.thresholds.usableTokens;
  return exhausted(work.meter, measurement, what, isRefused ? 'what the provider takes' : 'what can be used');
}

function failedState({ scope, pending, measurement }: Setting): ContextState {
  return afterFailedCompaction(scope.contextState, pending.reason, measurement.total);
}

function describe({ what, messageSeq, tokens }: TooLarge): string {
  if (what === 'overhead') return `The instructions and tools alone (${tokens} tokens) are larger`;
  const names = {
    user_message: 'The user message',
    tool_result: 'The message with tool results',
    step: 'The step',
  } as const;
  return `${names[what]} no. ${messageSeq} (${tokens} tokens) cannot be taken out, and with it the context is larger`;
}
