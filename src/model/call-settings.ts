import type { ModelMessage } from 'ai';
import {
  type ModelSettings,
  planThinking,
  type ReasoningLevel,
  type ThinkingPlan,
  takesSetting,
} from '../domain/model/model-settings.ts';
import type { OutputFormat } from '../domain/run/output-format.ts';
import type { ProviderMetadata } from '../domain/transcript/message.ts';
import type { ResolvedModel } from './model-port.ts';
import { formatOptions } from './response-format.ts';

/** The settings of a model call, beside prompt and tools, in the SDK's form. */
export type CallSettings = Readonly<{
  maxOutputTokens: number;
  providerOptions: ProviderMetadata;
  temperature?: number;
  topP?: number;
  topK?: number;
  seed?: number;
  stopSequences?: string[];
  reasoning?: ReasoningLevel;
}>;

type Call = Readonly<{
  sessionId: string;
  settings: ModelSettings;
  maxOutputTokens: number;
  messages: readonly ModelMessage[];
  /** The provider makes the answer fit it. */
  format?: OutputFormat | undefined;
  /** The model makes one call at a time. */
  oneCall?: boolean | undefined;
}>;

/** An agent's settings for one request, without those for which the model's protocol has no field. */
export function callSettings(resolved: ResolvedModel, call: Call): CallSettings {
  const { protocol } = resolved;
  const { temperature, topP, topK, seed, stopSequences } = call.settings;
  return {
    ...(temperature !== undefined && { temperature }),
    ...(topP !== undefined && { topP }),
    ...(topK !== undefined && takesSetting(protocol, 'topK') && { topK }),
    ...(seed !== undefined && takesSetting(protocol, 'seed') && { seed }),
    ...(stopSequences !== undefined && takesSetting(protocol, 'stopSequences') && { stopSequences }),
    ...withOneCall(resolved, call, withFormat(resolved, call.format, optionsFor(resolved, call))),
  };
}

function withOneCall({ oneCallOptions = {} }: ResolvedModel, { oneCall }: Call, options: Options): Options {
  return oneCall === true ? withOptions(options, oneCallOptions) : options;
}

function withFormat(resolved: ResolvedModel, format: OutputFormat | undefined, options: Options): Options {
  return format === undefined ? options : withOptions(options, formatOptions(resolved, format));
}

function withOptions(options: Options, more: ProviderMetadata): Options {
  const merged = { ...options.providerOptions };
  for (const [provider, added] of Object.entries(more)) merged[provider] = { ...merged[provider], ...added };
  return { ...options, providerOptions: merged };
}

type Options = Pick<CallSettings, 'maxOutputTokens' | 'providerOptions' | 'reasoning'>;

function optionsFor(resolved: ResolvedModel, { sessionId, settings, maxOutputTokens, messages }: Call): Options {
  const { protocol, provider, modelId } = resolved;
  const { reasoning, topK } = settings;
  const providerOptions = resolved.providerOptions(sessionId);
  if (protocol === 'openai-compatible') {
    // The provider's package has no such field, and passes on unknown ones.
    const own = topK === undefined ? {} : { [provider]: { top_k: topK } };
    return { maxOutputTokens, providerOptions: { ...providerOptions, ...own }, ...(reasoning && { reasoning }) };
  }
  if (protocol !== 'anthropic-messages' || reasoning === undefined) {
    return { maxOutputTokens, providerOptions, ...(reasoning && { reasoning }) };
  }
  const plan = planThinking(modelId, reasoning, maxOutputTokens, goesOnWithoutThinking(messages));
  return {
    maxOutputTokens: plan.maxOutputTokens,
    providerOptions: withThinking(providerOptions, plan),
    ...(plan.level !== undefined && { reasoning: plan.level }),
  };
}

function withThinking(options: ProviderMetadata, { thinking, effort }: ThinkingPlan): ProviderMetadata {
  const { anthropic = {} } = options;
  const bound = anthropic['thinking'];
  return {
    ...options,
    anthropic: {
      ...anthropic,
      // Keeps the `blockBinding` that the provider's options may hold.
      ...(thinking !== undefined && { thinking: { ...(isObject(bound) && bound), ...thinking } }),
      ...(effort !== undefined && { effort }),
    },
  };
}

const isObject = (value: unknown): value is Readonly<Record<string, never>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Whether the model's last step, as the prompt shows it, made calls without thinking first. */
function goesOnWithoutThinking(messages: readonly ModelMessage[]): boolean {
  const last = messages.findLast(({ role }) => role === 'assistant');
  if (last === undefined || typeof last.content === 'string') return false;
  const [first] = last.content;
  return last.content.some(({ type }) => type === 'tool-call') && first?.type !== 'reasoning';
}
