import { z } from 'zod';
import { MODEL_FAMILIES, type TokenTier } from '../../model/model-family.ts';
import { GUESSED_LIMITS, type ModelLimits, modelLimitsSchema } from './limits.ts';
import { normalizeModelName, traitsOf } from './model-traits.ts';

const dollars = z.number().nonnegative();

/**
 * US dollars per million tokens: one price, or `base` and what takes its place for all tokens of a call whose input is
 * larger than `aboveInputTokens`.
 */
const tokenPriceSchema = z.union([
  dollars,
  z.strictObject({
    base: dollars,
    tiers: z.array(z.strictObject({ aboveInputTokens: z.number().int().nonnegative(), price: dollars })).max(10),
  }),
]);
export type TokenPrice = Readonly<z.infer<typeof tokenPriceSchema>>;

/** Null where a provider has no price of its own for cached tokens: they are billed as ordinary input. */
const modelPricesSchema = z.strictObject({
  input: tokenPriceSchema,
  cachedInput: tokenPriceSchema.nullable().default(null),
  cacheWrite: tokenPriceSchema.nullable().default(null),
  output: tokenPriceSchema,
  /** US dollars for each call, whatever it holds. */
  request: dollars.default(0),
});
export type ModelPrices = Readonly<z.infer<typeof modelPricesSchema>>;

/** What is known of a model at a provider. */
const modelEntrySchema = modelLimitsSchema.extend({
  /** Media types that it takes beside text. */
  mediaTypes: z.array(z.string()),
  tools: z.boolean(),
  /** Null: nobody has told what it costs. */
  prices: modelPricesSchema.nullable(),
  family: z.enum(MODEL_FAMILIES),
  /** The encoding that counts its tokens exactly; null where there is none. */
  tokenizer: z.literal('o200k_base').nullable(),
  /** Nobody has told how large its window is. */
  isGuessed: z.boolean(),
});
export type ModelEntry = Readonly<z.infer<typeof modelEntrySchema>>;

/** What a configuration says of a model; what it leaves out is taken from elsewhere. */
export const modelOverrideSchema = modelEntrySchema
  .omit({ isGuessed: true })
  .partial()
  .extend({
    /** The provider's name in the configuration; `openai` stands for `openai-chat` too. */
    provider: z.string().min(1).max(64),
    /** The model's id, also with a version or a date after it; with a `*` at its end all that begin so. */
    model: z.string().min(1).max(200),
  });
export type ModelOverride = Readonly<z.infer<typeof modelOverrideSchema>>;

/** A model that somebody asks for. */
export type ModelName = Readonly<{
  /** As the configuration calls it. */
  provider: string;
  modelId: string;
  /** Whose models and prices the provider has, as the registry of prices calls it; null where that is not known. */
  vendor: string | null;
}>;

/** What a registry of prices has of a model. */
export type RegisteredModel = Readonly<{ contextWindow: number | null; prices: ModelPrices | null }>;

/** What an endpoint has told of a model that it serves; what it has not told is absent. */
export type ServedModel = Readonly<
  Partial<Pick<ModelEntry, 'contextWindow' | 'inputLimit' | 'maxOutput' | 'mediaTypes' | 'tools'>>
>;

export type ModelFacts = Readonly<{
  registered: RegisteredModel | null;
  served: ServedModel | null;
  overrides: readonly ModelOverride[];
}>;

/** What is assumed of a model of which nobody has told anything. */
export const UNKNOWN_MODEL: ModelEntry = {
  ...GUESSED_LIMITS,
  mediaTypes: [],
  tools: true,
  prices: null,
  family: 'unknown',
  tokenizer: null,
  isGuessed: true,
};

/** The simulator stands in for a model of today, and costs nothing. */
const SIMULATED_MODEL: ModelEntry = {
  ...UNKNOWN_MODEL,
  contextWindow: 200_000,
  maxOutput: 32_000,
  mediaTypes: ['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'application/pdf'],
  prices: { input: 0, cachedInput: null, cacheWrite: null, output: 0, request: 0 },
  isGuessed: false,
};

/**
 * All that is known of a model. The configuration's word stands above that of the endpoint, and this above what is
 * known of the model wherever it is served.
 */
export function entryOf(name: ModelName, { registered, served, overrides }: ModelFacts): ModelEntry {
  const known = knownOf(name.modelId, registered);
  const base = name.provider.startsWith('simulated') ? simulated(known) : known;
  return overridesFor(name, overrides).reduce(withOverride, withServed(base, served));
}

/** The simulator answers as any model; under the name of a known one it is taken for that. */
const simulated = (known: ModelEntry): ModelEntry =>
  known.isGuessed ? SIMULATED_MODEL : { ...known, prices: SIMULATED_MODEL.prices };

function knownOf(modelId: string, registered: RegisteredModel | null): ModelEntry {
  const { contextWindow, maxOutput, inputLimit, ...traits } = traitsOf(modelId);
  const window = registered?.contextWindow ?? contextWindow;
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
  // Zod leaves keys without a value; they must not erase what is known.
  const given = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
  return bounded({ ...entry, ...given, ...(override.contextWindow !== undefined && { isGuessed: false }) });
}

/** Limits that are told by different hands may contradict each other: the window is the one that holds. */
function bounded(entry: ModelEntry): ModelEntry {
  const { inputLimit, ...rest } = entry;
  const isBelow = inputLimit !== undefined && inputLimit < entry.contextWindow;
  return {
    ...rest,
    ...(isBelow && { inputLimit }),
    maxOutput: Math.min(entry.maxOutput, entry.contextWindow),
  };
}

/** What the overrides say together, the more telling ones last: of the provider's own name, and of more of the model's. */
function overridesFor(name: ModelName, overrides: readonly ModelOverride[]): readonly ModelOverride[] {
  const model = normalizeModelName(name.modelId);
  const matching = overrides.filter(
    ({ provider, model: pattern }) =>
      (provider === name.provider || provider === name.vendor) && standsFor(normalizeModelName(pattern), model),
  );
  const isOwn = ({ provider }: ModelOverride): number => Number(provider === name.provider);
  /** A name says more than the beginning of one that is as long. */
  const told = ({ model: pattern }: ModelOverride): number =>
    pattern.endsWith('*') ? pattern.length - 1.5 : pattern.length;
  return matching.toSorted((a, b) => isOwn(a) - isOwn(b) || told(a) - told(b));
}

/** What may follow a model's id in the name of one of its versions: `gpt-5.4-2026-03-05`, `llama3:8b`. */
const VERSION = /^(?:-latest|-\d{8}|-\d{4}-\d{2}-\d{2}|-v\d+)?(?:[:@].*)?$/;

function standsFor(pattern: string, model: string): boolean {
  if (pattern.endsWith('*')) return model.startsWith(pattern.slice(0, -1));
  return model.startsWith(pattern) && VERSION.test(model.slice(pattern.length));
}

/** The limits of an entry alone. */
export function limitsOf({ contextWindow, inputLimit, maxOutput }: ModelEntry): ModelLimits {
  return { contextWindow, ...(inputLimit !== undefined && { inputLimit }), maxOutput };
}

/** How the texts for a model are counted. */
export const tierOf = (entry: ModelEntry): TokenTier => (entry.tokenizer === null ? 'estimate' : 'exact');
