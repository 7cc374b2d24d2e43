/** Counting of tokens: by the family's tokenizer, or by `estimateText`. */
export type TokenTier = 'exact' | 'estimate';

/** Families whose tokenizers or framing differ. */
export const MODEL_FAMILIES = [
  'claude',
  'openai',
  'gemini',
  'grok',
  'deepseek',
  'mistral',
  'kimi',
  'qwen',
  'glm',
  'minimax',
  'unknown',
] as const;
export type ModelFamily = (typeof MODEL_FAMILIES)[number];
