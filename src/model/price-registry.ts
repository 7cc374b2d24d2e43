import type { ModelInfo, TieredPrices } from '@pydantic/genai-prices';
import type { ModelName, ModelPrices, RegisteredModel, TokenPrice } from '../domain/context/limits/model-entry.ts';

/** Windows and prices from a package that comes with Baton. Nothing is fetched; a newer package knows more. */
export type PriceRegistry = Readonly<{
  /** The vendor whose models and prices an endpoint has; null: an unknown address. */
  vendorOf: (baseUrl: string) => string | null;
  /** As of a moment: some prices depend on date or hour. Null: unknown. Without a vendor: the window alone. */
  find: (name: ModelName, at: Date) => RegisteredModel | null;
}>;

/** Loads the registry, whose tables are large, only in processes that ask models. */
export async function openPriceRegistry(): Promise<PriceRegistry> {
  const { calcPrice, findProvider } = await import('@pydantic/genai-prices');
  const look = (modelId: string, providerId: string | null, timestamp: Date) =>
    calcPrice({}, modelId, { timestamp, ...(providerId !== null && { providerId }) });
  /** An unknown version with a date costs as much as the name without it. */
  const lookAtVersions = (modelId: string, providerId: string | null, at: Date) =>
    look(modelId, providerId, at) ?? look(modelId.replace(DATE, ''), providerId, at);
  const search = ({ modelId, vendor }: ModelName, at: Date): RegisteredModel | null => {
    const priced = vendor === null ? null : lookAtVersions(modelId, vendor, at);
    if (priced !== null) {
      return { contextWindow: windowOf(priced.model), prices: toPrices(modelId, priced.model_price) };
    }
    // A window belongs to the model, prices to its vendor.
    for (const { providerId, name } of waysToRead(modelId)) {
      const same = lookAtVersions(name, providerId, at);
      if (same !== null) return { contextWindow: windowOf(same.model), prices: null };
    }
    return null;
  };
  const vendors = new Map<string, string | null>();
  const found = new Map<string, RegisteredModel | null>();
  let foundInMinute = 0;
  return {
    vendorOf: (baseUrl) => keptIn(vendors, baseUrl, () => findProvider({ providerApiUrl: baseUrl })?.id ?? null),
    find(name, at) {
      const minute = Math.floor(at.getTime() / 60_000);
      if (minute !== foundInMinute) found.clear();
      foundInMinute = minute;
      return keptIn(found, JSON.stringify([name.modelId, name.vendor]), () => search(name, at));
    },
  };
}

const MAX_KEPT = 1_000;

/** Each step asks for its model's prices, and the package compares names with all patterns of a vendor each time. */
function keptIn<T>(kept: Map<string, T>, key: string, look: () => T): T {
  const cached = kept.get(key);
  if (cached !== undefined) return cached;
  const answer = look();
  if (kept.size >= MAX_KEPT) kept.clear();
  kept.set(key, answer);
  return answer;
}

const DATE = /-(?:\d{8}|\d{4}-\d{2}-\d{2})$/;

/** Gateways prefix the provider: `gateway/anthropic/claude-opus-4.8`, `gateway/bedrock/us.anthropic.…`. */
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

/** @returns null without a price for input or output: the model has none, or prices of another kind */
function toPrices(modelId: string, prices: RegistryPrices): ModelPrices | null {
  // Free models of a reseller have no prices at all.
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
