/** How texts are counted: by a tokenizer of the family, or by `estimateText`. */
export type TokenTier = 'exact' | 'estimate';

/** Model families as far as their tokenizers and framing differ. */
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
