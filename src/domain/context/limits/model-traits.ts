import type { ModelFamily } from '../../model/model-family.ts';

/** Facts about a model that no registry of prices has. They hold at every provider that serves it. */
export type ModelTraits = Readonly<{
  family: ModelFamily;
  /** The encoding that counts its tokens exactly; null: none. */
  tokenizer: 'o200k_base' | null;
  /** Most tokens of an answer; null: unknown. */
  maxOutput: number | null;
  /** Most tokens of a request; null: no limit below the window. */
  inputLimit: number | null;
  /** Tokens of input and output together; null: in the registry of prices, or unknown. */
  contextWindow: number | null;
  /** The window where the registry of prices is wrong; null: it is not. */
  correctedWindow: number | null;
  mediaTypes: readonly string[];
}>;

/** Pattern, maximum output, media types; input limit and window if needed. */
type TraitRow = readonly [
  model: string,
  maxOutput: number | null,
  mediaTypes: readonly string[],
  more?: Readonly<{ inputLimit?: number; contextWindow?: number; correctedWindow?: number }>,
];

type FamilyRows = Readonly<{ family: ModelFamily; tokenizer: 'o200k_base' | null; models: readonly TraitRow[] }>;

const TEXT: readonly string[] = [];
const IMAGE = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'] as const;
const IMAGE_PDF = [...IMAGE, 'application/pdf'] as const;

/** OpenAI limits the input of its 400k models separately. */
const OF_400K = { inputLimit: 272_000 } as const;
const OF_1050K = { inputLimit: 922_000 } as const;
/** Models of ChatGPT, which the registry takes for the model of that version. */
const OF_CHATGPT = { correctedWindow: 128_000 } as const;
const GEMINI_WINDOW = { contextWindow: 1_048_576 } as const;

/**
 * From models.dev (MIT) in July 2026, older models from their makers. A row with only the beginning of a family's names
 * covers models that are newer than this table.
 */
const TRAIT_ROWS: readonly FamilyRows[] = [
  {
    family: 'claude',
    tokenizer: null,
    models: [
      ['claude', 32_000, IMAGE_PDF],
      ['claude-fable-5', 128_000, IMAGE_PDF],
      ['claude-opus-5', 128_000, IMAGE_PDF],
      ['claude-opus-4-8', 128_000, IMAGE_PDF],
      ['claude-opus-4-7', 128_000, IMAGE_PDF],
      ['claude-opus-4-6', 128_000, IMAGE_PDF],
      ['claude-opus-4-5', 64_000, IMAGE_PDF],
      ['claude-sonnet-5', 128_000, IMAGE_PDF],
      ['claude-sonnet-4', 64_000, IMAGE_PDF],
      ['claude-haiku-4-5', 64_000, IMAGE_PDF],
      ['claude-3-7-sonnet', 64_000, IMAGE_PDF],
      ['claude-3-5-sonnet', 8_192, IMAGE_PDF],
      ['claude-3-5-haiku', 8_192, IMAGE_PDF],
      ['claude-3', 4_096, IMAGE],
      ['claude-2', 4_096, TEXT],
    ],
  },
  {
    family: 'openai',
    tokenizer: 'o200k_base',
    models: [
      ['gpt', 16_384, IMAGE],
      ['gpt-5.6', 128_000, IMAGE_PDF, OF_1050K],
      ['gpt-5.6-sol', 128_000, IMAGE_PDF, OF_1050K],
      ['gpt-5.6-luna', 128_000, IMAGE_PDF, OF_1050K],
      ['gpt-5.5', 128_000, IMAGE_PDF, OF_1050K],
      ['gpt-5.4', 128_000, IMAGE_PDF, OF_1050K],
      ['gpt-5.4-mini', 128_000, IMAGE, OF_400K],
      ['gpt-5.4-nano', 128_000, IMAGE, OF_400K],
      ['gpt-5.3-codex', 128_000, IMAGE_PDF, OF_400K],
      ['gpt-5.2', 128_000, IMAGE, OF_400K],
      ['gpt-5.1', 128_000, IMAGE, OF_400K],
      ['gpt-5', 128_000, IMAGE, OF_400K],
      ['gpt-5-chat-latest', 16_384, IMAGE, OF_CHATGPT],
      ['gpt-5.1-chat-latest', 16_384, IMAGE, OF_CHATGPT],
      ['gpt-5.2-chat-latest', 16_384, IMAGE, OF_CHATGPT],
      ['gpt-5.3-chat-latest', 16_384, IMAGE, OF_CHATGPT],
      ['gpt-4.5', 16_384, IMAGE_PDF, { contextWindow: 128_000 }],
      ['gpt-4.1', 32_768, IMAGE_PDF],
      ['gpt-4o', 16_384, IMAGE_PDF],
      ['o1', 100_000, IMAGE_PDF],
      ['o3', 100_000, IMAGE_PDF],
      ['o3-mini', 100_000, TEXT],
      ['o4-mini', 100_000, IMAGE],
      ['gpt-oss', 40_960, TEXT, { contextWindow: 131_072 }],
    ],
  },
  {
    // Older than o200k_base.
    family: 'openai',
    tokenizer: null,
    models: [
      ['gpt-4-turbo', 4_096, IMAGE],
      ['gpt-4-1106', 4_096, TEXT],
      ['gpt-4-0125', 4_096, TEXT],
      ['gpt-4', 4_096, TEXT],
      ['gpt-3.5', 4_096, TEXT],
    ],
  },
  {
    family: 'gemini',
    tokenizer: null,
    models: [
      ['gemini', 65_536, IMAGE_PDF],
      ['gemini-3.1-pro-preview', 65_536, IMAGE_PDF, GEMINI_WINDOW],
      ['gemini-3-pro-preview', 65_536, IMAGE_PDF, GEMINI_WINDOW],
      ['gemini-2.5-pro', 65_536, IMAGE_PDF, GEMINI_WINDOW],
      ['gemini-2.0', 8_192, IMAGE_PDF],
      ['gemini-1.5', 8_192, IMAGE_PDF],
      ['gemini-pro', 2_048, TEXT],
      ['gemini-1.0', 2_048, TEXT],
    ],
  },
  {
    family: 'grok',
    tokenizer: null,
    models: [
      ['grok', 16_384, TEXT],
      ['grok-4', 30_000, IMAGE],
      ['grok-4.3', 30_000, IMAGE_PDF],
      ['grok-build-0.1', 256_000, IMAGE_PDF],
    ],
  },
  {
    family: 'deepseek',
    tokenizer: null,
    models: [
      ['deepseek', null, TEXT],
      ['deepseek-chat', 8_192, TEXT],
      ['deepseek-v4-pro', 384_000, TEXT],
      ['deepseek-v4-flash', 384_000, TEXT],
    ],
  },
  {
    family: 'mistral',
    tokenizer: null,
    models: [
      ['mistral', null, TEXT],
      ['mixtral', null, TEXT],
      ['ministral', null, TEXT],
      ['magistral', null, TEXT],
      ['codestral', null, TEXT],
      ['devstral', null, TEXT],
      ['pixtral', null, IMAGE],
      ['mistral-large-2512', 262_144, IMAGE, { contextWindow: 262_144 }],
      ['mistral-medium-2604', 262_144, IMAGE, { contextWindow: 262_144 }],
      ['devstral-2512', 262_144, TEXT, { contextWindow: 262_144 }],
    ],
  },
  {
    family: 'kimi',
    tokenizer: null,
    models: [
      ['kimi', null, TEXT],
      ['kimi-k2', null, TEXT, { contextWindow: 131_072 }],
      ['kimi-k2.6', 262_144, IMAGE, { contextWindow: 262_144 }],
    ],
  },
  {
    family: 'glm',
    tokenizer: null,
    models: [
      ['glm', null, TEXT],
      ['glm-5.2', 131_072, TEXT, { contextWindow: 1_000_000 }],
    ],
  },
  {
    family: 'minimax',
    tokenizer: null,
    models: [
      ['minimax', null, TEXT],
      ['minimax-m3', 128_000, IMAGE, { contextWindow: 1_000_000 }],
    ],
  },
  {
    family: 'qwen',
    tokenizer: null,
    models: [
      ['qwen', null, TEXT],
      ['qwen2.5', null, TEXT],
      ['qwen3', null, TEXT],
      ['qwen3.7-max', 65_536, TEXT, { contextWindow: 1_000_000 }],
      ['qwen3-coder-plus', 65_536, TEXT, { contextWindow: 1_048_576 }],
    ],
  },
];

/** Longest pattern first, because it is the most specific. */
const TRAITS = TRAIT_ROWS.flatMap(({ family, tokenizer, models }) =>
  models.map(([pattern, maxOutput, mediaTypes, more = {}]) => ({
    pattern,
    traits: {
      family,
      tokenizer,
      maxOutput,
      inputLimit: more.inputLimit ?? null,
      contextWindow: more.contextWindow ?? null,
      correctedWindow: more.correctedWindow ?? null,
      mediaTypes,
    } satisfies ModelTraits,
  })),
).toSorted((a, b) => b.pattern.length - a.pattern.length);

const NO_TRAITS: ModelTraits = {
  family: 'unknown',
  tokenizer: null,
  maxOutput: null,
  inputLimit: null,
  contextWindow: null,
  correctedWindow: null,
  mediaTypes: [],
};

/**
 * The row with the longest pattern that occurs in the name as whole words. Also finds dated versions, and the ids of
 * resellers and Bedrock: `anthropic/claude-opus-4.8`, `us.anthropic.claude-haiku-4-5-20251001-v1:0`.
 */
export function traitsOf(modelId: string): ModelTraits {
  const name = normalizeModelName(modelId);
  return TRAITS.find(({ pattern }) => isNamed(name, pattern))?.traits ?? NO_TRAITS;
}

/** Lower case. Anthropic writes `claude-opus-4-8`, resellers `claude-opus-4.8`. */
export function normalizeModelName(name: string): string {
  const lower = name.toLowerCase();
  return lower.includes('claude') ? lower.replaceAll(/(\d)\.(\d)/g, '$1-$2') : lower;
}

/** Whether the pattern occurs as whole words: `gpt-4` is not in `gpt-4o`, and `gpt-5` is not in `gpt-5.9`. */
function isNamed(name: string, pattern: string): boolean {
  for (let at = name.indexOf(pattern); at >= 0; at = name.indexOf(pattern, at + 1)) {
    const before = name.charAt(at - 1);
    const after = name.charAt(at + pattern.length);
    if (/^[/.]?$/.test(before) && /^[-:@]?$/.test(after)) return true;
  }
  return false;
}
