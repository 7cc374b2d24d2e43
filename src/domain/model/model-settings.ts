import { z } from 'zod';
import { bindsThinking, claudeVersion } from './claude-version.ts';
import type { ModelProtocol } from './shown-media.ts';

/** Levels of thinking. A level that a model does not know becomes the nearest one that it knows. */
export const REASONING_LEVELS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const;
export type ReasoningLevel = (typeof REASONING_LEVELS)[number];

const positive = z.number().int().positive();

/** Settings of a model's answers. A missing one means the provider's default. */
export const modelSettingsSchema = z.strictObject({
  temperature: z.number().min(0).max(2).optional(),
  topP: z.number().min(0).max(1).optional(),
  topK: positive.optional(),
  /** The same answers for the same requests, as far as a provider manages that. */
  seed: z.number().int().optional(),
  /** The answer ends before the first of them. */
  stopSequences: z.array(z.string().min(1)).min(1).max(4).optional(),
  /** Limit of one answer, reasoning included. */
  maxOutputTokens: positive.optional(),
  reasoning: z.enum(REASONING_LEVELS).optional(),
});
export type ModelSettings = Readonly<z.infer<typeof modelSettingsSchema>>;
type SettingName = keyof ModelSettings;

/**
 * Field of each setting in a request, by protocol; null: none. Some models take less (a reasoning model takes no
 * temperature): the provider package knows them, and leaves out refused settings.
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

/** Highest temperature of a protocol that allows less than `modelSettingsSchema`. */
const MOST_TEMPERATURE: Partial<Readonly<Record<ModelProtocol, number>>> = { 'anthropic-messages': 1 };

export const takesSetting = (protocol: ModelProtocol, name: SettingName): boolean =>
  SETTING_FIELDS[protocol][name] !== null;

type SettingProblem = Readonly<{ name: string; message: string }>;

/** Settings that the protocol cannot carry, or that the model would refuse. */
export function settingProblems(protocol: ModelProtocol, model: string, settings: ModelSettings): SettingProblem[] {
  const missing = Object.entries(SETTING_FIELDS[protocol]).flatMap(([name, field]): SettingProblem[] =>
    field === null && Object.hasOwn(settings, name) ? [{ name, message: `${model} (${protocol}) takes none` }] : [],
  );
  const most = MOST_TEMPERATURE[protocol];
  const { temperature } = settings;
  if (most === undefined || temperature === undefined || temperature <= most) return missing;
  return [...missing, { name: 'temperature', message: `at most ${most} for ${model} (${protocol})` }];
}

export type ThinkingPlan = Readonly<{
  thinking?:
    | Readonly<{ type: 'adaptive'; display: 'summarized' }>
    | Readonly<{ type: 'enabled'; budgetTokens: number }>
    | Readonly<{ type: 'disabled' }>;
  /** The lowest effort, for a model that always thinks. */
  effort?: 'low';
  /** From the level the provider package derives the model's effort. */
  level?: ReasoningLevel;
  /** Left for the answer beside the thinking budget. */
  maxOutputTokens: number;
}>;

const LEAST_BUDGET_TOKENS = 1_024;
const LEAST_ANSWER_TOKENS = 1_024;

/** Thinking budget as a share of the answer, for models that take a budget. */
const BUDGET_SHARES: Readonly<Record<Exclude<ReasoningLevel, 'none'>, number>> = {
  minimal: 0.02,
  low: 0.1,
  medium: 0.3,
  high: 0.6,
  xhigh: 0.8,
  max: 0.9,
};

/** Models up to 4.5, and other models behind the same protocol, take a budget in tokens. */
export const thinksByBudget = (modelId: string): boolean => (claudeVersion(modelId) ?? 405) <= 405;

/** Thinking starts with 3.7. */
const canThink = (modelId: string): boolean => (claudeVersion(modelId) ?? 307) >= 307;

/**
 * From 4.6 on a model decides itself how much to think, guided by an effort; an earlier one gets a budget, which is
 * part of `maxOutputTokens`. A model that always thinks is told to think little for `none`.
 * https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking
 *
 * @param maxOutputTokens of the whole answer
 * @param isInLoop the request continues calls that the model made without thinking: a budget would be refused
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
