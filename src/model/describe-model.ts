import {
  entryOf,
  type ModelEntry,
  type ModelOverride,
  type ModelPrices,
  type ServedModel,
} from '../domain/context/limits/model-entry.ts';
import type { ModelProtocol } from '../domain/model/shown-media.ts';
import type { ResolvedModel } from './model-port.ts';
import type { PriceRegistry } from './price-registry.ts';

type AskedModel = Pick<ResolvedModel, 'provider' | 'modelId' | 'protocol' | 'endpoint' | 'askServed'>;

/** All that is known of a model at its provider. May ask its endpoint. Never throws. */
export type DescribeModel = (model: AskedModel) => Promise<ModelEntry>;

/** The prices of a model, without asking its endpoint; null: unknown. */
export type PricesOf = (model: AskedModel) => ModelPrices | null;

type Options = Readonly<{
  registry: PriceRegistry;
  /** The entries of the configuration, which override everything else. */
  overrides: readonly ModelOverride[];
  now?: () => Date;
}>;

/** The vendor behind an unknown gateway or proxy, by its protocol. A compatible server may serve any model. */
const VENDOR_OF_PROTOCOL: Readonly<Record<ModelProtocol, string | null>> = {
  'openai-responses': 'openai',
  'openai-chat': 'openai',
  'anthropic-messages': 'anthropic',
  'openai-compatible': null,
};

/** Combines the configuration, the endpoint and the registry. */
export function createModelBook(options: Options): Readonly<{ describeModel: DescribeModel; pricesOf: PricesOf }> {
  const { registry, overrides, now = () => new Date() } = options;
  const askedOnce = createAskedEndpoints(() => now().getTime());
  const describe = (model: AskedModel, served: ServedModel | null): ModelEntry => {
    const { provider, modelId, protocol, endpoint } = model;
    const vendor = registry.vendorOf(endpoint) ?? VENDOR_OF_PROTOCOL[protocol];
    const name = { provider, modelId, vendor };
    return entryOf(name, { registered: registry.find(name, now()), served, overrides });
  };
  return {
    describeModel: async (model) => describe(model, await askedOnce(model)),
    pricesOf: (model) => describe(model, null).prices,
  };
}

/** After the first answer: the server may still load the model, with another window. */
const ASK_AGAIN_SOON_MS = 60_000;
/** The server may get another model or another window. */
const ASK_AGAIN_MS = 600_000;
const MAX_KEPT_ANSWERS = 1_000;

type KeptAnswer = Readonly<{ servedModel: Promise<ServedModel | null>; askAgainAtMs: number }>;

/** Keeps the answers of endpoints. A step waits for the first one only; later ones count once they are there. */
function createAskedEndpoints(nowMs: () => number): (model: AskedModel) => Promise<ServedModel | null> {
  const kept = new Map<string, KeptAnswer>();
  return ({ provider, modelId, askServed }) => {
    if (askServed === undefined) return Promise.resolve(null);
    const key = `${provider}/${modelId}`;
    const cached = kept.get(key);
    if (cached !== undefined && nowMs() < cached.askAgainAtMs) return cached.servedModel;
    if (kept.size >= MAX_KEPT_ANSWERS) kept.clear();
    if (cached === undefined) {
      const servedModel = askServed();
      kept.set(key, { servedModel, askAgainAtMs: nowMs() + ASK_AGAIN_SOON_MS });
      return servedModel;
    }
    kept.set(key, { ...cached, askAgainAtMs: nowMs() + ASK_AGAIN_MS });
    void askServed().then((description) => {
      // An endpoint that is away for a moment keeps its last answer.
      if (description !== null)
        kept.set(key, { servedModel: Promise.resolve(description), askAgainAtMs: nowMs() + ASK_AGAIN_MS });
    });
    return cached.servedModel;
  };
}
