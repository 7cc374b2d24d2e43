import { whyUnpriced } from '../agents/cost-limit.ts';
import { logFields } from '../claims/job-scope.ts';
import { costOf } from '../domain/context/limits/cost.ts';
import type { BatonError, ErrorRecord } from '../domain/errors.ts';
import { formatId } from '../domain/ids.ts';
import { type Adaptation, describeAdaptation } from '../domain/model/remedies/adaptation.ts';
import { MAX_REMEDIES_PER_STEP, planRemedy } from '../domain/model/remedies/plan-remedy.ts';
import { planRetry } from '../domain/model/retry-policy.ts';
import type { FinishReason } from '../domain/transcript/message.ts';
import { NO_USAGE, type Usage } from '../domain/usage.ts';
import { adaptModel } from '../model/adapt-model.ts';
import { callSettings } from '../model/call-settings.ts';
import { brokeOff, toFinishReason } from '../model/finish-reason.ts';
import { failedCallOf, type ModelFailure, toModelFailure } from '../model/model-error.ts';
import type { ResolvedModel } from '../model/model-port.ts';
import { inModelSpan, type TracedRequest } from '../model/model-span.ts';
import { toUsage } from '../model/response-parts.ts';
import { type AnswerEnd, comesFromModel, streamAnswer } from '../model/stream-answer.ts';
import { createWatchdog, type Watchdog } from '../model/watchdog.ts';
import { logModelCall } from '../step/log-model-call.ts';
import { costLimitsOf } from '../step/step-context.ts';
import { rememberAdaptations } from '../store/work/model-limits.ts';
import { pauseModel } from '../store/work/provider-pauses.ts';
import type { ModelRequest } from './model-request.ts';
import { type CompactionWork, MAX_MODEL_CALLS, spend } from './work.ts';

export type ModelAnswer = Readonly<
  | { kind: 'answered'; text: string; finishReason: FinishReason; toolCalls: number; outputTokens: number }
  | { kind: 'failed'; failure: ModelFailure }
  /** A required price is unknown, so the model was not asked. */
  | { kind: 'refused'; error: ErrorRecord }
  /** The job was stopped, its time is up, or it has used up its calls. */
  | { kind: 'stopped'; reason: 'stopped' | 'time_up' | 'calls_used_up' }
>;

/** Low, because a summary must stay close to the conversation. */
const TEMPERATURE = 0.3;

/**
 * Asks a model, and adds its cost to `spent`. A refusal of the request's form is answered with a change of it, which is
 * remembered if it helped. Never throws for a provider's error.
 */
export async function askModel(work: CompactionWork, request: ModelRequest): Promise<ModelAnswer> {
  const current: { request: ModelRequest; changes: readonly Adaptation[] } = { request, changes: [] };
  for (let left = MAX_REMEDIES_PER_STEP; ; left--) {
    const answer = await askOnce(work, current.request);
    if (answer.kind === 'answered') await rememberChanges(work, current.request, current.changes);
    if (answer.kind !== 'failed' || left === 0) return answer;
    const remade = await remadeRequest(work, current.request, answer.failure);
    if (remade === null) return answer;
    current.request = remade.request;
    current.changes = [...current.changes, ...remade.changes];
  }
}

async function askOnce(work: CompactionWork, request: ModelRequest): Promise<ModelAnswer> {
  const { deps, scope, spent, signal } = work;
  if (signal.aborted) return stopped(work);
  if (spent.calls >= MAX_MODEL_CALLS) return { kind: 'stopped', reason: 'calls_used_up' };
  const { resolved, entry } = request;
  const model = `${resolved.provider}/${resolved.modelId}`;
  const refusal = entry.prices === null ? whyUnpriced(model, costLimitsOf(deps, scope)) : null;
  if (refusal !== null) return { kind: 'refused', error: refusal };
  spent.calls++;
  using watchdog = createWatchdog(deps.modelTimeouts);
  const { answer, usage } = await inModelSpan(tracedRequest(work, request), async (span) => {
    const outcome = await ask(work, request, watchdog);
    if (outcome.answer.kind === 'answered') {
      const { finishReason, text } = outcome.answer;
      const firstChunkMs = watchdog.firstChunkMs();
      const firstTokenMs = firstChunkMs === null ? null : Math.round(firstChunkMs);
      const usage = outcome.usage ?? NO_USAGE;
      span.answered({ finishReason, usage, parts: () => [{ type: 'text', text }], firstTokenMs });
    } else {
      span.broken(whyBroken(outcome.answer));
    }
    return outcome;
  });
  if (usage !== null) spend(spent, usage, costOf(usage, entry));
  logModelCall(deps.log, scope, {
    purpose: 'compaction',
    model,
    entry,
    usage,
    firstChunkMs: watchdog.firstChunkMs(),
    durationMs: watchdog.elapsedMs(),
  });
  await pauseIfAsked(work, resolved, answer);
  return answer;
}

function whyBroken(answer: Exclude<ModelAnswer, { kind: 'answered' }>): BatonError | string {
  if (answer.kind === 'failed') return answer.failure.error;
  return answer.kind === 'refused' ? answer.error.code : answer.reason;
}

/** A rate limit pauses the model for all sessions. */
async function pauseIfAsked({ deps, failures, scope }: CompactionWork, resolved: ResolvedModel, answer: ModelAnswer) {
  if (answer.kind !== 'failed' || answer.failure.class !== 'rate_limited') return;
  const retry = planRetry('rate_limited', failures + 1, answer.failure.retryAfterMs, deps.random());
  if (retry.retry) await pauseModel(deps.db, resolved, scope, retry.delayMs);
}

function tracedRequest({ deps, scope }: CompactionWork, request: ModelRequest): TracedRequest {
  const { resolved, maxOutputTokens, prompt, tools } = request;
  return {
    resolved,
    sessionId: formatId('session', scope.sessionId),
    maxOutputTokens,
    settings: { temperature: TEMPERATURE },
    withContent: deps.traceContent === true,
    prompt: () => prompt,
    tools,
  };
}

type Asked = Readonly<{ answer: ModelAnswer; usage: Usage | null }>;

async function ask(work: CompactionWork, request: ModelRequest, watchdog: Watchdog): Promise<Asked> {
  const { scope, signal } = work;
  const { resolved, prompt, tools, maxOutputTokens, reasoning } = request;
  const settings = callSettings(resolved, {
    sessionId: scope.sessionId,
    settings: { temperature: TEMPERATURE, ...(reasoning !== undefined && { reasoning }) },
    maxOutputTokens,
    messages: prompt.messages,
  });
  const heard: { end: AnswerEnd | null } = { end: null };
  const { end, headers } = await streamAnswer(
    {
      model: resolved.model,
      prompt,
      tools,
      ...toolChoiceFor(resolved),
      settings,
      signal: AbortSignal.any([signal, watchdog.signal]),
    },
    {
      onPart(part) {
        if (comesFromModel(part)) watchdog.heard();
      },
      onEnd(whole) {
        heard.end = whole;
      },
    },
  );
  const failed = (error: unknown): Asked => {
    const failure = toModelFailure(error, failedCallOf(resolved, prompt, headers));
    return { answer: { kind: 'failed', failure }, usage: null };
  };
  if (signal.aborted) return { answer: stopped(work), usage: null };
  if (watchdog.signal.aborted) return failed(watchdog.signal.reason);
  if (end.kind === 'failed') return failed(end.error);
  if (heard.end === null || brokeOff(heard.end.finishReason)) return failed(new Error('the answer broke off'));
  return answered(heard.end);
}

function answered({ content, finishReason, usage: sdkUsage }: AnswerEnd): Asked {
  const usage = toUsage(sdkUsage);
  const answer: ModelAnswer = {
    kind: 'answered',
    text: content.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join(''),
    finishReason: toFinishReason(finishReason),
    toolCalls: content.filter(({ type }) => type === 'tool-call').length,
    outputTokens: Math.max(0, usage.outputTokens - usage.reasoningTokens),
  };
  return { answer, usage };
}

function stopped({ scope }: CompactionWork): ModelAnswer {
  return { kind: 'stopped', reason: scope.held.stopped() === null ? 'time_up' : 'stopped' };
}

/** With cache marks in the prompt, a tool choice other than the step's would miss all cached messages. */
function toolChoiceFor({ cacheBreakpoints = false }: ResolvedModel): { toolChoice?: 'none' } {
  return cacheBreakpoints ? {} : { toolChoice: 'none' };
}

/** A request that its provider refused for its form, made once more with the changes that answer the words. */
type Remade = Readonly<{ request: ModelRequest; changes: readonly Adaptation[] }>;

/** The request with the changes that answer a refusal, as a step makes them. Null: there are none. */
async function remadeRequest(
  { deps, scope, spent, round }: CompactionWork,
  request: ModelRequest,
  failure: ModelFailure,
): Promise<Remade | null> {
  const { resolved, files = [], remake } = request;
  const changes = planRemedy(failure.class, failure.signals, {
    tools: request.tools.map(({ name }) => name),
    files,
    adaptations: resolved.adaptations ?? [],
  });
  const isPossible = resolved.adapted !== undefined || changes.every(({ kind }) => kind === 'omit_file');
  if (changes.length === 0 || !isPossible) return null;
  const model = `${resolved.provider}/${resolved.modelId}`;
  const kinds = [...new Set(changes.map(({ kind }) => kind))];
  deps.log('warn', { event: 'request_adapted', ...logFields(scope), model, changes: kinds });
  const all = [...(resolved.adaptations ?? []), ...changes];
  const remade = remake === undefined ? { ...request, resolved: adaptModel(resolved, all) } : await remake(all);
  if (remade === null) return null;
  const text = changes.map(describeAdaptation).join(' ');
  const data = { runId: formatId('run', scope.runId), round, model, changes: [...changes], text };
  spent.adapted = [...spent.adapted, { type: 'llm:adapted', data }];
  return { request: remade, changes };
}

/** Remembers the changes with which the provider took the request, for all sessions of the tenant. */
async function rememberChanges(
  { deps, scope }: CompactionWork,
  { resolved: { provider, endpoint, modelId } }: ModelRequest,
  changes: readonly Adaptation[],
): Promise<void> {
  await rememberAdaptations(deps.db, scope.tenantId, { provider, endpoint, model: modelId }, changes);
}
