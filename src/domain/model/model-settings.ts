import { z } from 'zod';
import { bindsThinking, claudeVersion } from './claude-version.ts';
import type { ModelProtocol } from './shown-media.ts';

/** How much a model thinks before it answers; what a model does not know becomes the nearest that it knows. */
export const REASONING_LEVELS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const;
export type ReasoningLevel = (typeof REASONING_LEVELS)[number];

const positive = z.number().int().positive();

/** How a model is to answer. What is left out is the provider's own default. */
export const modelSettingsSchema = z.strictObject({
  temperature: z.number().min(0).max(2).optional(),
  topP: z.number().min(0).max(1).optional(),
  topK: positive.optional(),
  /** The same answers for the same requests, as far as a provider manages that. */
  seed: z.number().int().optional(),
  /** The answer ends before the first of them. */
  stopSequences: z.array(z.string().min(1)).min(1).max(4).optional(),
  /** Of one answer, reasoning included. */
  maxOutputTokens: positive.optional(),
  reasoning: z.enum(REASONING_LEVELS).optional(),
});
export type ModelSettings = Readonly<z.infer<typeof modelSettingsSchema>>;
type SettingName = keyof ModelSettings;

/**
 * Where each setting stands in a request of each protocol; null: nowhere. Single models take less (a reasoning model no
 * temperature, say): of those the provider package knows, and leaves out what they refuse.
 *
 * - https://platform.openai.com/docs/api-reference/responses/create and …/chat/create
 * - https://docs.anthropic.com/en/api/messages
 * - `top_k` is no field of OpenAI's, but vLLM, llama.cpp, LM Studio and the like take it beside the others
 */
export const SETTING_FIELDS: Readonly<Record<ModelProtocol, Readonly<Record<SettingName, string | null>>>> = {
  'openai-responses': {
    temperature: 'temperature',
    topP: 'top_p',
    topK: null,
    seed: null,
    stopSequences: null,
    maxOutputTokens: 'max_output_tokens',
    reasoning: 'reasoning.effort',
  },
  'openai-chat': {
    temperature: 'temperature',
    topP: 'top_p',
    topK: null,
    seed: 'seed',
    stopSequences: 'stop',
    maxOutputTokens: 'max_tokens',
    reasoning: 'reasoning_effort',
  },
  'openai-compatible': {
    temperature: 'temperature',
    topP: 'top_p',
    topK: 'top_k',
    seed: 'seed',
    stopSequences: 'stop',
    maxOutputTokens: 'max_tokens',
    reasoning: 'reasoning_effort',
  },
  'anthropic-messages': {
    temperature: 'temperature',
    topP: 'top_p',
    topK: 'top_k',
    seed: null,
    stopSequences: 'stop_sequences',
    maxOutputTokens: 'max_tokens',
    reasoning: 'thinking.type',
  },
};

/** What one field may not exceed, where a protocol allows less than `modelSettingsSchema`. */
const MOST_TEMPERATURE: Partial<Readonly<Record<ModelProtocol, number>>> = { 'anthropic-messages': 1 };

/** Whether a protocol has the setting at all. */
export const takesSetting = (protocol: ModelProtocol, name: SettingName): boolean =>
  SETTING_FIELDS[protocol][name] !== null;

/** A setting with what is wrong with it. */
type SettingProblem = Readonly<{ name: string; message: string }>;

/** What of the settings a model would not be told, or would refuse. */
export function settingProblems(protocol: ModelProtocol, model: string, settings: ModelSettings): SettingProblem[] {
  const missing = Object.entries(SETTING_FIELDS[protocol]).flatMap(([name, field]): SettingProblem[] =>
    field === null && Object.hasOwn(settings, name) ? [{ name, message: `${model} (${protocol}) takes none` }] : [],
  );
  const most = MOST_TEMPERATURE[protocol];
  const { temperature } = settings;
  if (most === undefined || temperature === undefined || temperature <= most) return missing;
  return [...missing, { name: 'temperature', message: `at most ${most} for ${model} (${protocol})` }];
}

/** What Anthropic's protocol is told of thinking. */
export type ThinkingPlan = Readonly<{
  thinking?:
    | Readonly<{ type: 'adaptive'; display: 'summarized' }>
    | Readonly<{ type: 'enabled'; budgetTokens: number }>
    | Readonly<{ type: 'disabled' }>;
  /** The lowest one of a model that always thinks. */
  effort?: 'low';
  /** The level, for the provider package to find the effort that the model knows. */
  level?: ReasoningLevel;
  /** What is left for the answer beside a budget for thinking. */
  maxOutputTokens: number;
}>;

/** A provider refuses a smaller budget. */
const LEAST_BUDGET_TOKENS = 1_024;
/** What is left for the answer itself at least. */
const LEAST_ANSWER_TOKENS = 1_024;

/** Which share of an answer may be thought, where a model is given a budget for it. */
const BUDGET_SHARES: Readonly<Record<Exclude<ReasoningLevel, 'none'>, number>> = {
  minimal: 0.02,
  low: 0.1,
  medium: 0.3,
  high: 0.6,
  xhigh: 0.8,
  max: 0.9,
};

/** Models up to 4.5, and others that are asked in the same protocol, are given a budget in tokens. */
export const thinksByBudget = (modelId: string): boolean => (claudeVersion(modelId) ?? 405) <= 405;

/** The first that thinks is 3.7. */
const canThink = (modelId: string): boolean => (claudeVersion(modelId) ?? 307) >= 307;

/**
 * How a model of Anthropic's protocol is asked to think. Since 4.6 it decides itself how much, guided by an effort;
 * before it has a budget, which is part of what the answer may have. One that always thinks is told to think little.
 * https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking
 *
 * @param maxOutputTokens of the whole answer
 * @param isInLoop the request goes on with calls that the model made without thinking: a budget is refused then
 */
export function planThinking(
  modelId: string,
  level: ReasoningLevel,
  maxOutputTokens: number,
  isInLoop: boolean,
): ThinkingPlan {
  if (!canThink(modelId)) return { maxOutputTokens };
  if (level === 'none') {
    if (bindsThinking(modelId)) return { effort: 'low', maxOutputTokens };
    return thinksByBudget(modelId) ? { maxOutputTokens } : { thinking: { type: 'disabled' }, maxOutputTokens };
  }
  if (!thinksByBudget(modelId)) {
    return { thinking: { type: 'adaptive', display: 'summarized' }, level, maxOutputTokens };
  }
  const mostTokens = maxOutputTokens - LEAST_ANSWER_TOKENS;
  if (isInLoop || mostTokens < LEAST_BUDGET_TOKENS) return { maxOutputTokens };
  const share = Math.round(maxOutputTokens * BUDGET_SHARES[level]);
  const budgetTokens = Math.min(Math.max(share, LEAST_BUDGET_TOKENS), mostTokens);
  return { thinking: { type: 'enabled', budgetTokens }, maxOutputTokens: maxOutputTokens - budgetTokens };
}
