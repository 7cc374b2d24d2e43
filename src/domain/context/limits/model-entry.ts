import { z } from 'zod';
import { MODEL_FAMILIES, type TokenTier } from '../../model/model-family.ts';
import { GUESSED_LIMITS, type ModelLimits, modelLimitsSchema } from './limits.ts';
import { normalizeModelName, traitsOf } from './model-traits.ts';

const dollars = z.number().nonnegative();

/** US dollars per million tokens. A tier holds for all tokens of a call with more input than `aboveInputTokens`. */
const tokenPriceSchema = z.union([
  dollars,
  z.strictObject({
    base: dollars,
    tiers: z.array(z.strictObject({ aboveInputTokens: z.number().int().nonnegative(), price: dollars })).max(10),
  }),
]);
export type TokenPrice = Readonly<z.infer<typeof tokenPriceSchema>>;

/** Null: the provider bills tokens of this kind as ordinary input. */
const modelPricesSchema = z.strictObject({
  input: tokenPriceSchema,
  cachedInput: tokenPriceSchema.nullable().default(null),
  cacheWrite: tokenPriceSchema.nullable().default(null),
  output: tokenPriceSchema,
  request: dollars.default(0),
});
export type ModelPrices = Readonly<z.infer<typeof modelPricesSchema>>;

/** A model as one provider serves it. */
const modelEntrySchema = modelLimitsSchema.extend({
  /** Accepted media types besides text. */
  mediaTypes: z.array(z.string()),
  tools: z.boolean(),
  prices: modelPricesSchema.nullable(),
  family: z.enum(MODEL_FAMILIES),
  /** The encoding that counts its tokens exactly; null: none. */
  tokenizer: z.literal('o200k_base').nullable(),
  /** No source has told the size of the window. */
  isGuessed: z.boolean(),
});
export type ModelEntry = Readonly<z.infer<typeof modelEntrySchema>>;

/** An override from the configuration. Other sources supply the fields that it leaves out. */
export const modelOverrideSchema = modelEntrySchema
  .omit({ isGuessed: true })
  .partial()
  .extend({
    /** Name of the provider in the configuration; `openai` covers `openai-chat` too. */
    provider: z.string().min(1).max(64),
    /** Also matches the id with a version or a date after it; with a `*` at its end every id that begins so. */
    model: z.string().min(1).max(200),
  });
export type ModelOverride = Readonly<z.infer<typeof modelOverrideSchema>>;

export type ModelName = Readonly<{
  provider: string;
  modelId: string;
  /** Owner of the models and prices in the registry of prices, under its name there; null: unknown. */
  vendor: string | null;
}>;

export type RegisteredModel = Readonly<{ contextWindow: number | null; prices: ModelPrices | null }>;

/** An endpoint's own description of a model that it serves. Unknown fields are absent. */
export type ServedModel = Readonly<
  Partial<Pick<ModelEntry, 'contextWindow' | 'inputLimit' | 'maxOutput' | 'mediaTypes' | 'tools'>>
>;

export type ModelFacts = Readonly<{
  registered: RegisteredModel | null;
  served: ServedModel | null;
  overrides: readonly ModelOverride[];
}>;

export const UNKNOWN_MODEL: ModelEntry = {
  ...GUESSED_LIMITS,
  mediaTypes: [],
  tools: true,
  prices: null,
  family: 'unknown',
  tokenizer: null,
  isGuessed: true,
};

/** The simulator stands in for a current model, and costs nothing. */
const SIMULATED_MODEL: ModelEntry = {
  ...UNKNOWN_MODEL,
  contextWindow: 200_000,
  maxOutput: 32_000,
  mediaTypes: ['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'application/pdf'],
  prices: { input: 0, cachedInput: null, cacheWrite: null, output: 0, request: 0 },
  isGuessed: false,
};

/** Merges all facts: the configuration wins over the endpoint, and that over facts about the model anywhere. */
export function entryOf(name: ModelName, { registered, served, overrides }: ModelFacts): ModelEntry {
  const registryEntry = knownOf(name.modelId, registered);
  const base = name.provider.startsWith('simulated') ? simulated(registryEntry) : registryEntry;
  return overridesFor(name, overrides).reduce(withOverride, withServed(base, served));
}

/** The simulator answers as any model. Under the name of a known one it has that model's entry, but costs nothing. */
const simulated = (entry: ModelEntry): ModelEntry =>
  entry.isGuessed ? SIMULATED_MODEL : { ...entry, prices: SIMULATED_MODEL.prices };

function knownOf(modelId: string, registered: RegisteredModel | null): ModelEntry {
  const { contextWindow, correctedWindow, maxOutput, inputLimit, ...traits } = traitsOf(modelId);
  const window = correctedWindow ?? registered?.contextWindow ?? contextWindow;
  return bounded({
    ...UNKNOWN_MODEL,
    ...traits,
    contextWindow: window ?? GUESSED_LIMITS.contextWindow,
    ...(inputLimit !== null && { inputLimit }),
    maxOutput: maxOutput ?? GUESSED_LIMITS.maxOutput,
    mediaTypes: [...traits.mediaTypes],
    prices: registered?.prices ?? null,
    isGuessed: window === null,
  });
}

function withServed(entry: ModelEntry, served: ServedModel | null): ModelEntry {
  if (served === null) return entry;
  const isTold = served.contextWindow !== undefined;
  return bounded({ ...entry, ...served, ...(isTold && { isGuessed: false }) });
}

function withOverride(entry: ModelEntry, override: ModelOverride): ModelEntry {
  const { provider: _provider, model: _model, ...fields } = override;
  // Zod leaves keys without a value; they must not erase known values.
  const present = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
  return bounded({ ...entry, ...present, ...(override.contextWindow !== undefined && { isGuessed: false }) });
}

/** Limits from different sources may contradict each other: the window wins. */
function bounded(entry: ModelEntry): ModelEntry {
  const { inputLimit, ...rest } = entry;
  const isBelow = inputLimit !== undefined && inputLimit < entry.contextWindow;
  return {
    ...rest,
    ...(isBelow && { inputLimit }),
    maxOutput: Math.min(entry.maxOutput, entry.contextWindow),
  };
}

/** Matching overrides, the most specific last: the provider's own name after the vendor's, then longer model names. */
function overridesFor(name: ModelName, overrides: readonly ModelOverride[]): readonly ModelOverride[] {
  const model = normalizeModelName(name.modelId);
  const matching = overrides.filter(
    ({ provider, model: pattern }) =>
      (provider === name.provider || provider === name.vendor) && standsFor(normalizeModelName(pattern), model),
  );
  const isOwn = ({ provider }: ModelOverride): number => Number(provider === name.provider);
  /** A whole name is more specific than a prefix of the same length. */
  const precision = ({ model: pattern }: ModelOverride): number =>
    pattern.endsWith('*') ? pattern.length - 1.5 : pattern.length;
  return matching.toSorted((a, b) => isOwn(a) - isOwn(b) || precision(a) - precision(b));
}

/** A version after a model's id: `gpt-5.4-2026-03-05`, `llama3:8b`. */
const VERSION = /^(?:-latest|-\d{8}|-\d{4}-\d{2}-\d{2}|-v\d+)?(?:[:@].*)?$/;

function standsFor(pattern: string, model: string): boolean {
  if (pattern.endsWith('*')) return model.startsWith(pattern.slice(0, -1));
  return model.startsWith(pattern) && VERSION.test(model.slice(pattern.length));
}

export function limitsOf({ contextWindow, inputLimit, maxOutput }: ModelEntry): ModelLimits {
  return { contextWindow, ...(inputLimit !== undefined && { inputLimit }), maxOutput };
}

export const tierOf = (entry: ModelEntry): TokenTier => (entry.tokenizer === null ? 'estimate' : 'exact');
