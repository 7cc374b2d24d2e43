import type { ModelInfo, TieredPrices } from '@pydantic/genai-prices';
import type { ModelName, ModelPrices, RegisteredModel, TokenPrice } from '../domain/context/limits/model-entry.ts';

/**
 * Windows and prices of models as the package that comes with Baton has them: nothing is fetched, a newer package knows
 * more.
 */
export type PriceRegistry = Readonly<{
  /** Whose models and prices an endpoint has; null where its address is nobody's that the registry knows. */
  vendorOf: (baseUrl: string) => string | null;
  /**
   * A model as it is at a moment: some prices depend on the date or the hour.
   * @returns null where nothing is known; of a model whose vendor is not known the window alone
   */
  find: (name: ModelName, at: Date) => RegisteredModel | null;
}>;

/** The registry's tables are large: a process that asks no model does not load them. */
export async function openPriceRegistry(): Promise<PriceRegistry> {
  const { calcPrice, findProvider } = await import('@pydantic/genai-prices');
  const look = (modelId: string, providerId: string | null, timestamp: Date) =>
    calcPrice({}, modelId, { timestamp, ...(providerId !== null && { providerId }) });
  /** A version with a date that the registry does not have costs what the others of that name do. */
  const lookAtVersions = (modelId: string, providerId: string | null, at: Date) =>
    look(modelId, providerId, at) ?? look(modelId.replace(DATE, ''), providerId, at);
  return {
    vendorOf: (baseUrl) => findProvider({ providerApiUrl: baseUrl })?.id ?? null,
    find({ modelId, vendor }, at) {
      const priced = vendor === null ? null : lookAtVersions(modelId, vendor, at);
      if (priced !== null) {
        return { contextWindow: windowOf(priced.model), prices: toPrices(modelId, priced.model_price) };
      }
      // Windows are those of the model, whoever serves it; prices are not.
      for (const { providerId, name } of waysToRead(modelId)) {
        const found = lookAtVersions(name, providerId, at);
        if (found !== null) return { contextWindow: windowOf(found.model), prices: null };
      }
      return null;
    },
  };
}

const DATE = /-(?:\d{8}|\d{4}-\d{2}-\d{2})$/;

/** Gateways put the provider before the model: `gateway/anthropic/claude-opus-4.8`, `gateway/bedrock/us.anthropic.…`. */
function waysToRead(modelId: string): readonly Readonly<{ providerId: string | null; name: string }>[] {
  const words = modelId.split('/');
  return words.flatMap((word, index) => {
    const rest = words.slice(index + 1).join('/');
    const whole = { providerId: null, name: words.slice(index).join('/') };
    return rest === '' ? [whole] : [whole, { providerId: word, name: rest }];
  });
}

const windowOf = ({ context_window }: ModelInfo): number | null => context_window ?? null;

type RegistryPrices = Readonly<Record<string, number | TieredPrices | undefined>>;

/** @returns null where the registry has no price for input or output: it then has none, or those of another kind */
function toPrices(modelId: string, prices: RegistryPrices): ModelPrices | null {
  // A reseller's free models have no prices at all.
  const isFree = modelId.endsWith(':free') && Object.keys(prices).length === 0;
  const input = isFree ? 0 : toPrice(prices['input_mtok']);
  const output = isFree ? 0 : toPrice(prices['output_mtok']);
  if (input === null || output === null) return null;
  const perThousandRequests = prices['requests_kcount'];
  return {
    input,
    cachedInput: toPrice(prices['cache_read_mtok']),
    cacheWrite: toPrice(prices['cache_write_mtok']),
    output,
    request: typeof perThousandRequests === 'number' ? perThousandRequests / 1_000 : 0,
  };
}

function toPrice(price: number | TieredPrices | undefined): TokenPrice | null {
  if (price === undefined || typeof price === 'number') return price ?? null;
  return {
    base: price.base,
    tiers: price.tiers.map(({ start, price: each }) => ({ aboveInputTokens: start, price: each })),
  };
}
