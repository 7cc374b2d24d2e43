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

/** A model at its provider, as far as it matters for what is known of it. */
type AskedModel = Pick<ResolvedModel, 'provider' | 'modelId' | 'protocol' | 'endpoint' | 'askServed'>;

/** All that is known of a model at its provider. Asks its endpoint, where that may tell. Never throws. */
export type DescribeModel = (model: AskedModel) => Promise<ModelEntry>;

/** What a model costs at its provider, without asking anybody; null where that is not known. */
export type PricesOf = (model: AskedModel) => ModelPrices | null;

type Options = Readonly<{
  registry: PriceRegistry;
  /** What the configuration says of models, which stands above everything else. */
  overrides: readonly ModelOverride[];
  now?: () => Date;
}>;

/**
 * Whose models and prices a provider has that speaks a protocol and whose address tells nothing: a gateway or a proxy.
 * A server that is merely compatible may serve anything.
 */
const VENDOR_OF_PROTOCOL: Readonly<Record<ModelProtocol, string | null>> = {
  'openai-responses': 'openai',
  'openai-chat': 'openai',
  'anthropic-messages': 'anthropic',
  'openai-compatible': null,
};

/** Puts together what the configuration, the endpoint and the registry tell of models. */
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

/** After the first answer a server may still load the model, with a window of its own. */
const ASK_AGAIN_SOON_MS = 60_000;
/** A server may be given another model or another window. */
const ASK_AGAIN_MS = 600_000;
const MAX_KEPT_ANSWERS = 1_000;

type KeptAnswer = Readonly<{ told: Promise<ServedModel | null>; askAgainAtMs: number }>;

/** What endpoints have told. A step waits for the first answer only: later ones count from when they are there. */
function createAskedEndpoints(nowMs: () => number): (model: AskedModel) => Promise<ServedModel | null> {
  const kept = new Map<string, KeptAnswer>();
  return ({ provider, modelId, askServed }) => {
    if (askServed === undefined) return Promise.resolve(null);
    const key = `${provider}/${modelId}`;
    const known = kept.get(key);
    if (known !== undefined && nowMs() < known.askAgainAtMs) return known.told;
    if (kept.size >= MAX_KEPT_ANSWERS) kept.clear();
    if (known === undefined) {
      const told = askServed();
      kept.set(key, { told, askAgainAtMs: nowMs() + ASK_AGAIN_SOON_MS });
      return told;
    }
    kept.set(key, { ...known, askAgainAtMs: nowMs() + ASK_AGAIN_MS });
    void askServed().then((told) => {
      // An endpoint that is away for a moment has taken nothing back.
      if (told !== null) kept.set(key, { told: Promise.resolve(told), askAgainAtMs: nowMs() + ASK_AGAIN_MS });
    });
    return known.told;
  };
}
