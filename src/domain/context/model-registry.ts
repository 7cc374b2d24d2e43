import { z } from 'zod';
import { MODEL_FAMILIES, type TokenTier } from './calibration.ts';
import { type ModelLimits, modelLimitsSchema, UNKNOWN_LIMITS } from './limits.ts';
import { MODEL_TABLE } from './model-table.ts';

const dollars = z.number().nonnegative();

/** US dollars per million tokens; null where a provider has no such price or it is not known. */
const modelPricesSchema = z.strictObject({
  input: dollars,
  cachedInput: dollars.nullable(),
  cacheWrite: dollars.nullable(),
  output: dollars,
});

/** What is known of a model at a provider. */
export const modelEntrySchema = modelLimitsSchema.extend({
  provider: z.string().min(1),
  /** The model's id, or how it begins: `gpt-5.4` is also `gpt-5.4-2026-03-05`. */
  model: z.string().min(1),
  /** Media types that it takes beside text. */
  mediaTypes: z.array(z.string()),
  tools: z.boolean(),
  prices: modelPricesSchema.nullable(),
  family: z.enum(MODEL_FAMILIES),
  /** The encoding that counts its tokens exactly; null where there is none. */
  tokenizer: z.literal('o200k_base').nullable(),
});
export type ModelEntry = Readonly<z.infer<typeof modelEntrySchema>>;

/** What a configuration may say of a model: all of a new one, or a part of a known one. */
export const modelOverrideSchema = modelEntrySchema.partial().required({ provider: true, model: true });
export type ModelOverride = Readonly<z.infer<typeof modelOverrideSchema>>;

/** The models that Baton knows without being told. */
export const MODEL_REGISTRY: readonly ModelEntry[] = MODEL_TABLE.flatMap(({ provider, family, tokenizer, models }) =>
  models.map(([model, contextWindow, inputLimit, maxOutput, mediaTypes, prices]) => ({
    provider,
    model,
    contextWindow,
    ...(inputLimit !== null && { inputLimit }),
    maxOutput,
    mediaTypes: [...mediaTypes],
    tools: true,
    prices: prices && { input: prices[0], cachedInput: prices[1], cacheWrite: prices[2], output: prices[3] },
    family,
    tokenizer,
  })),
);

/** What is assumed of a model that nobody described. */
export const UNKNOWN_MODEL: ModelEntry = {
  provider: 'unknown',
  model: 'unknown',
  ...UNKNOWN_LIMITS,
  mediaTypes: [],
  tools: true,
  prices: null,
  family: 'unknown',
  tokenizer: null,
};

/**
 * The registry with a configuration's overrides. One for a known provider and model replaces the fields that it names;
 * any other is a new entry, completed by what is assumed of an unknown model.
 */
export function mergeModels(registry: readonly ModelEntry[], overrides: readonly ModelOverride[]): ModelEntry[] {
  const merged = new Map(registry.map((entry) => [keyOf(entry), entry]));
  for (const override of overrides) {
    const base = merged.get(keyOf(override)) ?? UNKNOWN_MODEL;
    merged.set(keyOf(override), { ...base, ...withoutUndefined(override) });
  }
  return [...merged.values()];
}

const keyOf = ({ provider, model }: Pick<ModelEntry, 'provider' | 'model'>): string =>
  `${provider}/${normalize(model)}`;

/** Zod leaves keys without a value; they must not erase what the registry knows. */
function withoutUndefined(override: ModelOverride): ModelEntry {
  const given = Object.entries(override).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given) as ModelEntry;
}

/** Anthropic writes `claude-opus-4-8`, resellers `claude-opus-4.8`. */
const normalize = (name: string): string => {
  const lower = name.toLowerCase();
  return lower.includes('claude') ? lower.replaceAll(/(\d)\.(\d)/g, '$1-$2') : lower;
};

/**
 * The entry of `provider/model`: the longest one that its model begins with, of the same provider where two
 * are as long. A model that another provider serves has the limits of its entry but not its prices. Null for
 * a model that is unknown.
 *
 * @param name dated versions (`gpt-5.4-2026-03-05`), resellers
 * (`openrouter/anthropic/claude-opus-4.8`) and Bedrock's ids
 *   (`bedrock/us.anthropic.claude-opus-4-8-v1:0`) are found too
 */
export function findModel(name: string, registry: readonly ModelEntry[] = MODEL_REGISTRY): ModelEntry | null {
  const slash = name.indexOf('/');
  const provider = name.slice(0, Math.max(0, slash));
  const model = normalize(name.slice(slash + 1));
  const matches = registry.filter((entry) => isNamed(model, normalize(entry.model)));
  const [best] = matches.toSorted(
    (a, b) => b.model.length - a.model.length || Number(b.provider === provider) - Number(a.provider === provider),
  );
  if (best === undefined) return null;
  return slash < 0 || best.provider === provider ? best : { ...best, prices: null };
}

/**
 * Whether the pattern stands in the name as words of its own: `gpt-4` is not `gpt-4o`, and `gpt-5` is not `gpt-5.9`.
 */
function isNamed(name: string, pattern: string): boolean {
  for (let at = name.indexOf(pattern); at >= 0; at = name.indexOf(pattern, at + 1)) {
    const before = name.charAt(at - 1);
    const after = name.charAt(at + pattern.length);
    if (/^[/.]?$/.test(before) && /^[-:@]?$/.test(after)) return true;
  }
  return false;
}

/** The limits of an entry alone. */
export function limitsOf({ contextWindow, inputLimit, maxOutput }: ModelEntry): ModelLimits {
  return { contextWindow, ...(inputLimit !== undefined && { inputLimit }), maxOutput };
}

/** How the texts for a model are counted. */
export const tierOf = (entry: ModelEntry): TokenTier => (entry.tokenizer === null ? 'estimate' : 'exact');
