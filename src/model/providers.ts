import { createHash } from 'node:crypto';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI, type OpenAILanguageModelResponsesOptions } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { BatonError } from '../domain/errors.ts';
import { bindsThinking } from '../domain/model/claude-version.ts';
import type { Adaptation } from '../domain/model/remedies/adaptation.ts';
import type { ModelProtocol } from '../domain/model/shown-media.ts';
import type { ProviderMetadata } from '../domain/transcript/message.ts';
import { patientFetch } from '../platform/patient-fetch.ts';
import { askEndpoint } from './ask-endpoint.ts';
import { type BackgroundCall, cancelResponse, fetchInBackground } from './background.ts';
import type { ModelPort, ResolvedModel } from './model-port.ts';
import type { BackgroundMode, ProviderConfig } from './provider-configs.ts';
import { adaptBody } from './wire/adapt-body.ts';
import { createChatMend } from './wire/chat-events.ts';
import { type Mend, mendResponse } from './wire/mend-stream.ts';
import { createMessagesMend } from './wire/messages-events.ts';
import { createResponsesMend } from './wire/responses-events.ts';
import { withStrictAnswers } from './wire/strict-answers.ts';
import { writeSchemas } from './wire/written-schemas.ts';

export type ProviderSettings = Readonly<{
  openaiApiKey?: string | undefined;
  openaiBaseUrl?: string | undefined;
  anthropicApiKey?: string | undefined;
  anthropicBaseUrl?: string | undefined;
  simulatorUrl?: string | undefined;
  /** Those of the providers file. One with a name from above replaces that. */
  providers?: readonly ProviderConfig[];
}>;

/** The address of a provider, and the credentials for it. */
type Endpoint = Readonly<{
  name: string;
  baseUrl?: string | undefined;
  apiKey?: string | undefined;
  headers?: Readonly<Record<string, string>>;
  background?: BackgroundMode;
}>;

type Provider = (modelId: string) => ResolvedModel;

/** The SDK's base URLs. */
const DEFAULT_ENDPOINTS = { openai: 'https://api.openai.com/v1', anthropic: 'https://api.anthropic.com/v1' } as const;

/** By `provider/model`. @throws BatonError `model_unavailable` for a provider that is not configured */
export function createModels(settings: ProviderSettings): ModelPort {
  // The SDK would print unsupported options (a reasoning summary, say) to stderr; Baton's log is a closed set.
  globalThis.AI_SDK_LOG_WARNINGS = false;
  const providers = new Map<string, Provider>();
  const { openaiApiKey, openaiBaseUrl, anthropicApiKey, anthropicBaseUrl, simulatorUrl } = settings;
  if (openaiApiKey !== undefined) {
    const endpoint = { baseUrl: openaiBaseUrl, apiKey: openaiApiKey };
    providers.set('openai', openaiResponses({ ...endpoint, name: 'openai' }, {}));
    providers.set('openai-chat', openaiChat({ ...endpoint, name: 'openai-chat' }));
  }
  if (anthropicApiKey !== undefined) {
    const endpoint = { name: 'anthropic', baseUrl: anthropicBaseUrl, apiKey: anthropicApiKey };
    providers.set('anthropic', anthropicMessages(endpoint, thinkingOptions));
  }
  for (const config of settings.providers ?? []) providers.set(config.name, createProvider(config));
  if (simulatorUrl !== undefined) {
    const simulated = (name: string): Endpoint => ({ name, baseUrl: `${simulatorUrl}/v1`, apiKey: 'simulated' });
    // The SDK knows real models by name. For a simulated one it must be told to ask for reasoning.
    providers.set('simulated', openaiResponses(simulated('simulated'), { forceReasoning: true }));
    const lasting = { ...simulated('simulated-background'), background: 'always' } as const;
    providers.set('simulated-background', openaiResponses(lasting, { forceReasoning: true }));
    providers.set('simulated-chat', openaiChat(simulated('simulated-chat')));
    // The simulator's scripts have a cursor per session. A real provider need not know the session.
    const ofSession = (_modelId: string, userId: string) => ({ ...DROP_FOREIGN_THINKING, metadata: { userId } });
    providers.set('simulated-anthropic', anthropicMessages(simulated('simulated-anthropic'), ofSession));
  }
  return (name) => {
    const slash = name.indexOf('/');
    const provider = providers.get(name.slice(0, slash));
    if (provider === undefined) {
      const names = [...providers.keys()].join(', ') || 'none';
      throw new BatonError('model_unavailable', `no provider is configured for ${name}; configured: ${names}`);
    }
    return provider(name.slice(slash + 1));
  };
}

function createProvider(config: ProviderConfig): Provider {
  switch (config.kind) {
    case 'openai':
      return openaiResponses(config, {});
    case 'openai-chat':
      return openaiChat(config);
    case 'openai-compatible':
      return openaiCompatible(config);
    case 'anthropic':
      return anthropicMessages(config, thinkingOptions);
  }
}

/** The wire of one protocol: what is changed in requests, and how answers are read. */
type Wire = Readonly<{ protocol: ModelProtocol; mend: () => Mend; adaptations: readonly Adaptation[] }>;

function settingsOf({ baseUrl, apiKey, headers }: Endpoint, wire: Wire, ask: typeof fetch = patientFetch) {
  const { protocol, mend, adaptations } = wire;
  return {
    fetch: (async (input, init) => {
      const text = init?.body;
      const body = typeof text === 'string' ? adaptBody(writeSchemas(text), protocol, adaptations) : text;
      const response = await ask(input, { ...init, ...(body !== undefined && { body }) });
      return asksForStream(body) ? mendResponse(response, mend()) : response;
    }) as typeof fetch,
    ...(apiKey !== undefined && { apiKey }),
    ...(baseUrl !== undefined && { baseURL: baseUrl }),
    ...(headers !== undefined && { headers: { ...headers } }),
  };
}

const RESPONSES = { protocol: 'openai-responses', mend: createResponsesMend } as const;
const CHAT = { protocol: 'openai-chat', mend: createChatMend } as const;
const COMPATIBLE = { protocol: 'openai-compatible', mend: createChatMend } as const;
const MESSAGES = { protocol: 'anthropic-messages', mend: createMessagesMend } as const;

const asksForStream = (body: unknown): boolean => typeof body === 'string' && body.includes('"stream":true');

/** Each value as a whole, and also without its scheme (`Bearer …`). */
const secretsOf = ({ apiKey = '', headers = {} }: Endpoint): readonly string[] =>
  [apiKey, ...Object.values(headers)].flatMap((secret) => [secret, secret.replace(/^\S+\s+/, '')]);

/** Distinguishes keys without revealing them: half of a SHA-256 of key and headers. */
function credentialOf({ apiKey = '', headers = {} }: Endpoint): string {
  const sorted = Object.entries(headers).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return createHash('sha256')
    .update(JSON.stringify([apiKey, sorted]))
    .digest('hex')
    .slice(0, 32);
}

/**
 * OpenAI's Responses protocol. Nothing is stored at the provider, except answers in the background: reasoning comes back
 * encrypted and is sent again. The session's id keeps its requests on one prompt cache.
 */
function openaiResponses(at: Endpoint, extra: OpenAILanguageModelResponsesOptions): Provider {
  const credential = credentialOf(at);
  const { endpoint, isInBackground } = responsesAt(at);
  const authorization = { authorization: `Bearer ${at.apiKey ?? ''}`, ...at.headers };
  const responses = { url: `${endpoint.replace(/\/$/, '')}/responses`, headers: authorization };
  const requestOf = (modelId: string, adaptations: readonly Adaptation[]): Asked => {
    const wire = { ...RESPONSES, adaptations };
    const model = (ask?: typeof fetch) =>
      withStrictAnswers(createOpenAI(settingsOf(at, wire, ask)).responses(modelId), RESPONSES.protocol);
    const call = (one: BackgroundCall) => model(fetchInBackground(at.name, one));
    const cancel: Background['cancel'] = ({ id }) => cancelResponse(responses, id);
    return { model: model(), ...(isInBackground && { background: { call, cancel } }) };
  };
  return (modelId) => ({
    ...requestOf(modelId, []),
    adapted: (adaptations) => requestOf(modelId, adaptations),
    provider: at.name,
    modelId,
    protocol: 'openai-responses',
    endpoint,
    credential,
    secrets: secretsOf(at),
    providerOptions: (sessionId) => ({
      openai: { store: false, promptCacheKey: sessionId, reasoningSummary: 'auto', ...toJsonOptions(extra) },
    }),
    oneCallOptions: { openai: { parallelToolCalls: false } },
  });
}

type Asked = Pick<ResolvedModel, 'model' | 'background'>;
type Background = NonNullable<ResolvedModel['background']>;

/** `auto`: OpenAI itself is known to make answers in the background, another server may refuse it. */
function responsesAt({ baseUrl, background = 'never' }: Endpoint) {
  const endpoint = baseUrl ?? DEFAULT_ENDPOINTS.openai;
  const isOpenAi = new URL(endpoint).hostname === new URL(DEFAULT_ENDPOINTS.openai).hostname;
  return { endpoint, isInBackground: background === 'always' || (background === 'auto' && isOpenAi) };
}

function openaiChat(at: Endpoint): Provider {
  const credential = credentialOf(at);
  const endpoint = at.baseUrl ?? DEFAULT_ENDPOINTS.openai;
  const requestOf = (modelId: string, adaptations: readonly Adaptation[]): Asked => {
    const settings = settingsOf(at, { ...CHAT, adaptations });
    // The package for OpenAI's own models knows no thoughts of others, and would lose them.
    const model = isOfOpenAi(endpoint, modelId)
      ? createOpenAI(settings).chat(modelId)
      : createOpenAICompatible({ ...settings, ...COMPATIBLE_SETTINGS, baseURL: endpoint, name: 'openai' }).chatModel(
          modelId,
        );
    return { model: withStrictAnswers(model, CHAT.protocol) };
  };
  return (modelId) => ({
    ...requestOf(modelId, []),
    adapted: (adaptations) => requestOf(modelId, adaptations),
    provider: at.name,
    modelId,
    protocol: 'openai-chat',
    endpoint,
    credential,
    secrets: secretsOf(at),
    // The protocol has no calls that the provider runs itself.
    providerTools: false,
    providerOptions: (sessionId) => ({
      openai: isOfOpenAi(endpoint, modelId)
        ? { store: false, promptCacheKey: sessionId }
        : { store: false, prompt_cache_key: sessionId },
    }),
    oneCallOptions: {
      openai: isOfOpenAi(endpoint, modelId) ? { parallelToolCalls: false } : { parallel_tool_calls: false },
    },
  });
}

/** Gateways serve OpenAI's models under their own names, or behind a prefix. */
function isOfOpenAi(endpoint: string, modelId: string): boolean {
  const isTheirs = new URL(endpoint).hostname === new URL(DEFAULT_ENDPOINTS.openai).hostname;
  return isTheirs || /(?:^|\/)(?:gpt-(?!oss)|chatgpt|o\d)/.test(modelId);
}

const COMPATIBLE_SETTINGS = { includeUsage: true, supportsStructuredOutputs: true } as const;

/**
 * Chat completions of other servers (Ollama, LM Studio, vLLM, LiteLLM): only fields that all of them know are sent.
 * They report the usage of a stream only on request (`includeUsage`).
 */
function openaiCompatible(at: Endpoint & Readonly<{ baseUrl?: string }>): Provider {
  const baseURL = at.baseUrl ?? '';
  const credential = credentialOf(at);
  const bearer = at.apiKey === undefined ? {} : { authorization: `Bearer ${at.apiKey}` };
  const serving = { baseUrl: baseURL, headers: { ...bearer, ...at.headers } };
  const requestOf = (modelId: string, adaptations: readonly Adaptation[]): Asked => {
    const settings = settingsOf(at, { ...COMPATIBLE, adaptations });
    const compatible = createOpenAICompatible({ ...settings, ...COMPATIBLE_SETTINGS, baseURL, name: at.name });
    return { model: withStrictAnswers(compatible.chatModel(modelId), COMPATIBLE.protocol) };
  };
  return (modelId) => ({
    ...requestOf(modelId, []),
    adapted: (adaptations) => requestOf(modelId, adaptations),
    provider: at.name,
    modelId,
    protocol: 'openai-compatible',
    endpoint: baseURL,
    credential,
    secrets: secretsOf(at),
    providerTools: false,
    providerOptions: () => ({}),
    // The provider's package has no such option, and passes on unknown ones.
    oneCallOptions: { [at.name]: { parallel_tool_calls: false } },
    askServed: () => askEndpoint(serving, modelId),
  });
}

/**
 * Anthropic's Messages protocol. Extended thinking is on only if an agent asks for it or the model always thinks. None
 * of Anthropic's own tools is offered, so an earlier call of one is shown as an ordinary call.
 */
function anthropicMessages(
  at: Endpoint,
  options: (modelId: string, sessionId: string) => ProviderMetadata[string],
): Provider {
  const credential = credentialOf(at);
  const requestOf = (modelId: string, adaptations: readonly Adaptation[]): Asked => {
    const anthropic = createAnthropic(settingsOf(at, { ...MESSAGES, adaptations }));
    return { model: withStrictAnswers(anthropic.messages(modelId), MESSAGES.protocol) };
  };
  return (modelId) => ({
    ...requestOf(modelId, []),
    adapted: (adaptations) => requestOf(modelId, adaptations),
    provider: at.name,
    modelId,
    protocol: 'anthropic-messages',
    endpoint: at.baseUrl ?? DEFAULT_ENDPOINTS.anthropic,
    credential,
    secrets: secretsOf(at),
    providerTools: false,
    cacheBreakpoints: true,
    providerOptions: (sessionId) => ({ anthropic: options(modelId, sessionId) }),
    oneCallOptions: { anthropic: { disableParallelToolUse: true } },
  });
}

const thinkingOptions = (modelId: string) => (bindsThinking(modelId) ? DROP_FOREIGN_THINKING : {});

/** The provider drops a thinking block whose prefix a prune or compaction has changed, and takes the request. */
const DROP_FOREIGN_THINKING = { thinking: { blockBinding: { prefixMismatchBehavior: 'drop_block' } } };

function toJsonOptions(options: OpenAILanguageModelResponsesOptions): { forceReasoning?: boolean } {
  return options.forceReasoning === true ? { forceReasoning: true } : {};
}
