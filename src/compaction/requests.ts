import type { Agent } from '../agents/agent.ts';
import { contextMeterOf, knownModel } from '../claims/context-meter.ts';
import type { CompactPlan } from '../domain/context/compaction/compaction-plan.ts';
import { SUMMARIZER_INSTRUCTIONS } from '../domain/context/compaction/summary-request.ts';
import { reserveOf } from '../domain/context/limits/limits.ts';
import { SAME_MODEL, summarizingAgent } from '../domain/context/limits/policy.ts';
import type { ContextMeter } from '../domain/context/meter/context-meter.ts';
import { thinksByBudget } from '../domain/model/model-settings.ts';
import type { Adaptation } from '../domain/model/remedies/adaptation.ts';
import { fileGroupsOf } from '../domain/model/shown-media.ts';
import type { ViewMessage } from '../domain/transcript/message.ts';
import { showsCalls } from '../model/adapt-model.ts';
import type { ResolvedModel } from '../model/model-port.ts';
import { promptFor } from '../model/model-prompt.ts';
import { readMedia } from '../store/transcript/media.ts';
import type { ModelRequest } from './model-request.ts';
import { type CompactionWork, countReal } from './work.ts';

/** A reasoning model thinks before it writes: without this room its summary would be cut off. */
const REASONING_TOKENS = 8_000;

/** A summary's share of the summarizer's window. */
const ANSWER_SHARE = 1 / 6;

/** Keeps 5 % of the window free for the error of an estimate without an anchor. */
const INPUT_SHARE = 0.95;

/**
 * The last request of the session's own model up to the tail, with the order at its end, so that the provider's cache
 * serves it. Null: another model summarizes, or the request does not fit.
 */
export async function prefixRequest(
  work: CompactionWork,
  plan: CompactPlan,
  order: string,
  answerTokens: number,
): Promise<ModelRequest | null> {
  const { deps, resolved, meter, scope, tools, view } = work;
  if (meter.policy.compaction.model !== SAME_MODEL) return null;
  const before = plan.previousSummary === null ? [] : view.slice(0, 1);
  const { view: sent } = meter.show([...before, ...plan.head, userMessage(order, plan.uptoSeq + 1)]);
  const maxOutputTokens = maxOutputOf(work, meter, answerTokens);
  const { total } = meter.measure(sent, { ...scope.contextState, anchor: null });
  if (total > inputRoom(meter, maxOutputTokens)) return null;
  const media = await readMedia(deps.db, scope.sessionId, sent);
  const calls = showsCalls(resolved, meter.entry.tools, tools);
  const prompt = promptFor({ ...resolved, calls }, meter.model, {
    instructions: meter.instructions,
    view: sent,
    media,
  });
  const { reasoning } = scope.agent.settings;
  // A reasoning budget would differ from the step's, and the cache would miss anyway.
  const keepsThinking = resolved.cacheBreakpoints === true && !thinksByBudget(resolved.modelId);
  const remake = async (changes: readonly Adaptation[]): Promise<ModelRequest | null> => {
    const model = await knownModel(deps, deps.models(meter.model), scope.tenantId, { changes });
    const changed = { ...work, resolved: model.resolved, meter: await contextMeterOf(scope.agent, model, tools) };
    return prefixRequest(changed, plan, order, answerTokens);
  };
  const files = fileGroupsOf(sent);
  const draft = { resolved, entry: meter.entry, prompt, tools, maxOutputTokens, files, remake };
  return reasoning !== undefined && keepsThinking ? { ...draft, reasoning } : draft;
}

type SummarizerWork = Pick<CompactionWork, 'deps' | 'scope' | 'resolved' | 'meter'>;

export type Summarizer = Readonly<{ resolved: ResolvedModel; meter: ContextMeter; instructions: string }>;

/** @throws BatonError `model_unavailable` (provider not configured), `agent_not_found` (policy's agent is gone) */
export async function summarizerOf(work: SummarizerWork): Promise<Summarizer> {
  const { deps, resolved, meter } = work;
  const agent = await summarizingAgentOf(work);
  const { model, instructions } = agent;
  if (model === meter.model) return { resolved, meter, instructions };
  const compactor = await knownModel(deps, deps.models(model), work.scope.tenantId);
  return { resolved: compactor.resolved, meter: await contextMeterOf(agent, compactor, []), instructions };
}

/** The agent that the policy names, or the session's own agent with the policy's model. */
async function summarizingAgentOf({ deps, scope, meter }: SummarizerWork): Promise<Agent> {
  const { model } = meter.policy.compaction;
  const name = summarizingAgent(meter.policy);
  const agent = name === null ? { ...scope.agent, instructions: '' } : (await deps.agents.current()).get(name);
  return {
    ...agent,
    model: name === null && model !== SAME_MODEL ? model : agent.model,
    instructions: agent.instructions.trim() === '' ? SUMMARIZER_INSTRUCTIONS : agent.instructions,
  };
}

/** A separate request that contains the conversation as data. */
export function dataRequest(
  work: CompactionWork,
  { resolved, meter, instructions }: Summarizer,
  text: string,
  answerTokens: number,
): ModelRequest {
  const prompt = promptFor(resolved, meter.model, { instructions, view: [userMessage(text, 1)] });
  return { resolved, entry: meter.entry, prompt, tools: [], maxOutputTokens: maxOutputOf(work, meter, answerTokens) };
}

/** Tokens left for the transcript in a data request. @param beside everything else of that request */
export function transcriptRoom(
  work: CompactionWork,
  { meter, instructions }: Summarizer,
  beside: string,
  answerTokens: number,
): number {
  const count = countReal(work, meter);
  return inputRoom(meter, maxOutputOf(work, meter, answerTokens)) - count(instructions) - count(beside);
}

/** Real tokens of the head and the previous summary, which the new summary replaces. */
export function replacedTokens(work: CompactionWork, plan: CompactPlan): number {
  const ofHead = plan.head.reduce((sum, message) => sum + work.base.tokensOf(message), 0);
  return ofHead + countReal(work)(plan.previousSummary?.body ?? '');
}

/** The whole window rather than `usable`: a summary needs less room for its answer than a step. */
function inputRoom({ limits, policy }: ContextMeter, maxOutputTokens: number): number {
  const { contextWindow, inputLimit = contextWindow } = limits;
  const room = Math.min(contextWindow - maxOutputTokens, inputLimit, policy.maxContextTokens ?? contextWindow);
  return Math.floor(room * INPUT_SHARE);
}

/** Token limit of a summary: leaves room for new messages beside the previous summary and the answer. */
export function summaryTokensOf(
  { limits }: Pick<ContextMeter, 'limits'>,
  plan: Pick<CompactPlan, 'bodyTokens'>,
): number {
  return Math.min(plan.bodyTokens, limits.maxOutput, Math.floor(limits.contextWindow * ANSWER_SHARE));
}

function maxOutputOf({ meter: own, view }: CompactionWork, meter: ContextMeter, answerTokens: number): number {
  // Another model has no answers in the view that would show whether it reasons.
  const mayReason =
    meter.model !== own.model ||
    view.some(({ model, parts }) => model === meter.model && parts.some(({ type }) => type === 'reasoning'));
  const reasoningTokens = mayReason ? Math.min(REASONING_TOKENS, reserveOf(meter.limits, meter.policy)) : 0;
  return Math.min(answerTokens + reasoningTokens, meter.limits.maxOutput);
}

const userMessage = (text: string, seq: number): ViewMessage => ({
  id: '',
  seq,
  role: 'user',
  model: null,
  parts: [{ type: 'text', text }],
});
