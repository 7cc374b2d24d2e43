import type { LanguageModel } from 'ai';
import type { ServedModel } from '../domain/context/limits/model-entry.ts';
import type { ProviderResponse } from '../domain/model/provider-response.ts';
import type { Adaptation } from '../domain/model/remedies/adaptation.ts';
import type { ModelProtocol } from '../domain/model/shown-media.ts';
import type { ProviderMetadata } from '../domain/transcript/message.ts';
import type { BackgroundCall } from './background.ts';

/** A model that can be called, with its provider's options for every request. */
export type ResolvedModel = Readonly<{
  model: LanguageModel;
  provider: string;
  modelId: string;
  /** Protocols differ in the media types that they carry, and where. */
  protocol: ModelProtocol;
  /** The base URL of requests. Elsewhere the same model may have other limits. */
  endpoint: string;
  /** A hash of key and headers: another key has other rates. */
  credential: string;
  /** The key and the values of headers. They are removed from the provider's texts. */
  secrets?: readonly string[];
  /** False: the API has no calls that the provider runs itself, or none are offered. Default: true. */
  providerTools?: boolean;
  /** Whether the prompt carries cache marks, because the provider caches nothing by itself. */
  cacheBreakpoints?: boolean;
  providerOptions: (sessionId: string) => ProviderMetadata;
  /** Options of a request whose model may make one call at a time. Absent: there are none. */
  oneCallOptions?: ProviderMetadata;
  /** Absent: an answer ends with its connection. */
  background?: Readonly<{
    /** The model for one call whose answer goes on without a connection. */
    call: (call: BackgroundCall) => LanguageModel;
    /** Never rejects. */
    cancel: (response: ProviderResponse) => Promise<void>;
  }>;
  /** The same model, whose requests have these changes. Absent: its requests are made by the program. */
  adapted?: (adaptations: readonly Adaptation[]) => Pick<ResolvedModel, 'model' | 'background'>;
  /** The changes with which it is asked. Default: none. */
  adaptations?: readonly Adaptation[];
  /** Asks the endpoint about this model; absent if it has nothing to tell. Never throws. */
  askServed?: () => Promise<ServedModel | null>;
}>;

/** Finds a model by `provider/model`. @throws BatonError `model_unavailable` if its provider is not configured */
export type ModelPort = (name: string) => ResolvedModel;
