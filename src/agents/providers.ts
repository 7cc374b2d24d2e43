import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI, type OpenAILanguageModelResponsesOptions } from '@ai-sdk/openai';
import { BatonError } from '../domain/errors.ts';
import type { ProviderMetadata } from '../domain/message.ts';
import type { ModelPort, ResolvedModel } from '../step/model-port.ts';

export type ProviderSettings = Readonly<{
  openaiApiKey?: string | undefined;
  openaiBaseUrl?: string | undefined;
  anthropicApiKey?: string | undefined;
  anthropicBaseUrl?: string | undefined;
  simulatorUrl?: string | undefined;
}>;

type Provider = (modelId: string) => ResolvedModel;

/** What a provider without a base URL of its own is remembered under. */
const DEFAULT_ENDPOINT = 'default';

/**
 * The models of the configured providers, by `provider/model`.
 * @throws BatonError `model_unavailable` for a provider that is not configured
 */
export function createModels(settings: ProviderSettings): ModelPort {
  // The SDK prints what a model does not support (a reasoning summary, say) to stderr; our logs are a closed set.
  globalThis.AI_SDK_LOG_WARNINGS = false;
  const providers = new Map<string, Provider>();
  const { openaiApiKey, openaiBaseUrl, anthropicApiKey, anthropicBaseUrl, simulatorUrl } = settings;
  if (openaiApiKey !== undefined) {
    providers.set('openai', openaiResponses('openai', openaiApiKey, openaiBaseUrl, {}));
  }
  if (anthropicApiKey !== undefined) {
    const options = (modelId: string) => (bindsThinking(modelId) ? DROP_FOREIGN_THINKING : {});
    providers.set('anthropic', anthropicMessages('anthropic', anthropicApiKey, anthropicBaseUrl, options));
  }
  if (simulatorUrl !== undefined) {
    const baseUrl = `${simulatorUrl}/v1`;
    // The SDK knows real models by name; a simulated one must be told to be asked for its reasoning.
    providers.set('simulated', openaiResponses('simulated', 'simulated', baseUrl, { forceReasoning: true }));
    providers.set('simulated-chat', openaiChat('simulated-chat', 'simulated', baseUrl));
    // Its scripts have a cursor per session, which a real provider need not know.
    const ofSession = (_modelId: string, userId: string) => ({ ...DROP_FOREIGN_THINKING, metadata: { userId } });
    providers.set('simulated-anthropic', anthropicMessages('simulated-anthropic', 'simulated', baseUrl, ofSession));
  }
  return (name) => {
    const slash = name.indexOf('/');
    const provider = providers.get(name.slice(0, slash));
    if (provider === undefined) {
      const known = [...providers.keys()].join(', ') || 'none';
      throw new BatonError('model_unavailable', `no provider is configured for ${name}; configured: ${known}`);
    }
    return provider(name.slice(slash + 1));
  };
}

/**
 * OpenAI's Responses protocol. Nothing is stored at the provider: the transcript is ours, so reasoning comes back
 * encrypted and is sent again by us. The session's id keeps its requests on one prompt cache.
 */
function openaiResponses(
  provider: string,
  apiKey: string,
  baseURL: string | undefined,
  extra: OpenAILanguageModelResponsesOptions,
): Provider {
  const openai = createOpenAI({ apiKey, ...(baseURL === undefined ? {} : { baseURL }) });
  return (modelId) => ({
    model: openai.responses(modelId),
    provider,
    modelId,
    protocol: 'openai-responses',
    endpoint: baseURL ?? DEFAULT_ENDPOINT,
    providerOptions: (sessionId) => ({
      openai: { store: false, promptCacheKey: sessionId, reasoningSummary: 'auto', ...toJsonOptions(extra) },
    }),
  });
}

function openaiChat(provider: string, apiKey: string, baseURL: string): Provider {
  const openai = createOpenAI({ apiKey, baseURL });
  return (modelId) => ({
    model: openai.chat(modelId),
    provider,
    modelId,
    protocol: 'openai-chat',
    endpoint: baseURL,
    // The protocol has no calls that the provider runs itself.
    providerTools: false,
    providerOptions: (sessionId) => ({ openai: { store: false, promptCacheKey: sessionId } }),
  });
}

/**
 * Anthropic's Messages protocol. Extended thinking is on only where an agent asks for it or the model always thinks.
 * No tool of Anthropic's own is offered, so a call that one once ran is shown as an ordinary one.
 */
function anthropicMessages(
  provider: string,
  apiKey: string,
  baseURL: string | undefined,
  options: (modelId: string, sessionId: string) => ProviderMetadata[string],
): Provider {
  const anthropic = createAnthropic({ apiKey, ...(baseURL === undefined ? {} : { baseURL }) });
  return (modelId) => ({
    model: anthropic.messages(modelId),
    provider,
    modelId,
    protocol: 'anthropic-messages',
    endpoint: baseURL ?? DEFAULT_ENDPOINT,
    providerTools: false,
    cacheBreakpoints: true,
    providerOptions: (sessionId) => ({ anthropic: options(modelId, sessionId) }),
  });
}

/**
 * Since version 5.1 models bind each thinking block to the prompt that it answered, and refuse the request once that
 * has changed, as every prune and compaction changes it. So they are told to drop such a block instead.
 */
const DROP_FOREIGN_THINKING = { thinking: { blockBinding: { prefixMismatchBehavior: 'drop_block' } } };

/** A minor version has one or two digits; more are a date. */
const CLAUDE_VERSION = /^claude-[a-z]+-(\d{1,2})(?:[-.](\d{1,2}))?(?:-|$)/;

function bindsThinking(modelId: string): boolean {
  const [, major, minor = '0'] = CLAUDE_VERSION.exec(modelId) ?? [];
  return Number(major) > 5 || (Number(major) === 5 && Number(minor) >= 1);
}

function toJsonOptions(options: OpenAILanguageModelResponsesOptions): { forceReasoning?: boolean } {
  return options.forceReasoning === true ? { forceReasoning: true } : {};
}
