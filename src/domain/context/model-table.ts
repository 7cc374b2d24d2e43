import type { ModelFamily } from './calibration.ts';

type Prices = readonly [input: number, cachedInput: number | null, cacheWrite: number | null, output: number];

/** Pattern, window, input limit (null: none of its own), maximum output, media types, US dollars per million tokens. */
type ModelRow = readonly [
  model: string,
  contextWindow: number,
  inputLimit: number | null,
  maxOutput: number,
  mediaTypes: readonly string[],
  prices: Prices | null,
];

export type ProviderRows = Readonly<{
  provider: string;
  family: ModelFamily;
  tokenizer: 'o200k_base' | null;
  models: readonly ModelRow[];
}>;

const TEXT: readonly string[] = [];
const IMAGE = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'] as const;
const IMAGE_PDF = [...IMAGE, 'application/pdf'] as const;

/**
 * Current models as models.dev (MIT) published them in July 2026; base prices, without surcharges for long prompts.
 * Every model here calls tools. What an endpoint really takes may be less: see `applyLearned`.
 */
export const MODEL_TABLE: readonly ProviderRows[] = [
  {
    provider: 'anthropic',
    family: 'claude',
    tokenizer: null,
    models: [
      ['claude-fable-5', 1_000_000, null, 128_000, IMAGE_PDF, [10, 1, 12.5, 50]],
      ['claude-opus-4-8', 1_000_000, null, 128_000, IMAGE_PDF, [5, 0.5, 6.25, 25]],
      ['claude-opus-4-7', 1_000_000, null, 128_000, IMAGE_PDF, [5, 0.5, 6.25, 25]],
      ['claude-opus-4-6', 1_000_000, null, 128_000, IMAGE_PDF, [5, 0.5, 6.25, 25]],
      ['claude-opus-4-5', 200_000, null, 64_000, IMAGE_PDF, [5, 0.5, 6.25, 25]],
      ['claude-opus-4-1', 200_000, null, 32_000, IMAGE_PDF, [15, 1.5, 18.75, 75]],
      ['claude-sonnet-5', 1_000_000, null, 128_000, IMAGE_PDF, [2, 0.2, 2.5, 10]],
      ['claude-sonnet-4-6', 1_000_000, null, 64_000, IMAGE_PDF, [3, 0.3, 3.75, 15]],
      ['claude-sonnet-4-5', 200_000, null, 64_000, IMAGE_PDF, [3, 0.3, 3.75, 15]],
      ['claude-haiku-4-5', 200_000, null, 64_000, IMAGE_PDF, [1, 0.1, 1.25, 5]],
    ],
  },
  {
    provider: 'openai',
    family: 'openai',
    tokenizer: 'o200k_base',
    models: [
      ['gpt-5.5', 1_050_000, 922_000, 128_000, IMAGE_PDF, [5, 0.5, null, 30]],
      ['gpt-5.5-pro', 1_050_000, 922_000, 128_000, IMAGE_PDF, [30, null, null, 180]],
      ['gpt-5.4', 1_050_000, 922_000, 128_000, IMAGE_PDF, [2.5, 0.25, null, 15]],
      ['gpt-5.4-mini', 400_000, 272_000, 128_000, IMAGE, [0.75, 0.075, null, 4.5]],
      ['gpt-5.4-nano', 400_000, 272_000, 128_000, IMAGE, [0.2, 0.02, null, 1.25]],
      ['gpt-5.3-codex', 400_000, 272_000, 128_000, IMAGE_PDF, [1.75, 0.175, null, 14]],
      ['gpt-5.2', 400_000, 272_000, 128_000, IMAGE, [1.75, 0.175, null, 14]],
      ['gpt-5.1', 400_000, 272_000, 128_000, IMAGE, [1.25, 0.125, null, 10]],
      ['gpt-5', 400_000, 272_000, 128_000, IMAGE, [1.25, 0.125, null, 10]],
      ['gpt-5-mini', 400_000, 272_000, 128_000, IMAGE, [0.25, 0.025, null, 2]],
      ['gpt-5-nano', 400_000, 272_000, 128_000, IMAGE, [0.05, 0.005, null, 0.4]],
      ['gpt-4.1', 1_047_576, null, 32_768, IMAGE_PDF, [2, 0.5, null, 8]],
      ['gpt-4.1-mini', 1_047_576, null, 32_768, IMAGE_PDF, [0.4, 0.1, null, 1.6]],
      ['gpt-4o', 128_000, null, 16_384, IMAGE_PDF, [2.5, 1.25, null, 10]],
      ['gpt-4o-mini', 128_000, null, 16_384, IMAGE_PDF, [0.15, 0.075, null, 0.6]],
      ['o3', 200_000, null, 100_000, IMAGE_PDF, [2, 0.5, null, 8]],
      ['o4-mini', 200_000, null, 100_000, IMAGE, [1.1, 0.275, null, 4.4]],
    ],
  },
  {
    provider: 'google',
    family: 'gemini',
    tokenizer: null,
    models: [
      ['gemini-3.5-flash', 1_048_576, null, 65_536, IMAGE_PDF, [1.5, 0.15, null, 9]],
      ['gemini-3.1-pro-preview', 1_048_576, null, 65_536, IMAGE_PDF, [2, 0.2, null, 12]],
      ['gemini-3-flash-preview', 1_048_576, null, 65_536, IMAGE_PDF, [0.5, 0.05, null, 3]],
      ['gemini-2.5-pro', 1_048_576, null, 65_536, IMAGE_PDF, [1.25, 0.125, null, 10]],
      ['gemini-2.5-flash', 1_048_576, null, 65_536, IMAGE_PDF, [0.3, 0.03, null, 2.5]],
    ],
  },
  {
    provider: 'xai',
    family: 'grok',
    tokenizer: null,
    models: [
      ['grok-4.3', 1_000_000, null, 30_000, IMAGE_PDF, [1.25, 0.2, null, 2.5]],
      ['grok-build-0.1', 256_000, null, 256_000, IMAGE_PDF, [1, 0.2, null, 2]],
    ],
  },
  {
    provider: 'deepseek',
    family: 'deepseek',
    tokenizer: null,
    models: [
      ['deepseek-v4-pro', 1_000_000, null, 384_000, TEXT, [0.435, 0.003625, null, 0.87]],
      ['deepseek-v4-flash', 1_000_000, null, 384_000, TEXT, [0.14, 0.0028, null, 0.28]],
    ],
  },
  {
    provider: 'mistral',
    family: 'mistral',
    tokenizer: null,
    models: [
      ['mistral-large-2512', 262_144, null, 262_144, IMAGE, [0.5, null, null, 1.5]],
      ['mistral-medium-2604', 262_144, null, 262_144, IMAGE, [1.5, null, null, 7.5]],
      ['devstral-2512', 262_144, null, 262_144, TEXT, [0.4, null, null, 2]],
    ],
  },
  {
    provider: 'groq',
    family: 'openai',
    tokenizer: 'o200k_base',
    models: [['gpt-oss-120b', 131_072, null, 65_536, TEXT, [0.15, 0.075, null, 0.6]]],
  },
  {
    provider: 'cerebras',
    family: 'openai',
    tokenizer: 'o200k_base',
    models: [['gpt-oss-120b', 131_072, null, 40_960, TEXT, [0.35, null, null, 0.75]]],
  },
  {
    provider: 'moonshotai',
    family: 'kimi',
    tokenizer: null,
    models: [['kimi-k2.6', 262_144, null, 262_144, IMAGE, [0.95, 0.16, null, 4]]],
  },
  {
    provider: 'zai',
    family: 'glm',
    tokenizer: null,
    models: [['glm-5.2', 1_000_000, null, 131_072, TEXT, [1.4, 0.26, 0, 4.4]]],
  },
  {
    provider: 'minimax',
    family: 'minimax',
    tokenizer: null,
    models: [['minimax-m3', 1_000_000, null, 128_000, IMAGE, [0.3, 0.06, null, 1.2]]],
  },
  {
    provider: 'alibaba',
    family: 'qwen',
    tokenizer: null,
    models: [
      ['qwen3.7-max', 1_000_000, null, 65_536, TEXT, [2.5, 0.5, 3.125, 7.5]],
      ['qwen3-coder-plus', 1_048_576, null, 65_536, TEXT, [1, null, null, 5]],
    ],
  },
];
