import type { LanguageModel } from 'ai';
import type { ServedModel } from '../domain/context/limits/model-entry.ts';
import type { ModelProtocol } from '../domain/model/shown-media.ts';
import type { ProviderMetadata } from '../domain/transcript/message.ts';

/** A model that can be called, with what its provider must be told in every request. */
export type ResolvedModel = Readonly<{
  model: LanguageModel;
  provider: string;
  modelId: string;
  /** In which it is asked: not every one carries every media type everywhere. */
  protocol: ModelProtocol;
  /** Where requests go: the same model may be served with other limits elsewhere. */
  endpoint: string;
  /** A hash of the key and the headers that it is asked with: another key has other rates. */
  credential: string;
  /** What requests are signed with: nothing that the provider says shows any of it. */
  secrets?: readonly string[];
  /** False where the API knows no calls that the provider runs itself, or none are offered. Default true. */
  providerTools?: boolean;
  /** Whether the prompt carries cache marks: the provider caches nothing by itself. */
  cacheBreakpoints?: boolean;
  providerOptions: (sessionId: string) => ProviderMetadata;
  /** Asks the endpoint what it serves under this name; absent where it has nothing to tell. Never throws. */
  askServed?: () => Promise<ServedModel | null>;
}>;

/** Where models come from. @throws BatonError `model_unavailable` for a provider that is not configured */
export type ModelPort = (name: string) => ResolvedModel;
