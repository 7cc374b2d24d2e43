import { describe, expect, test } from 'vitest';
import { lessonOfNumbers } from '../../../src/domain/context/meter/learned-limits.ts';
import { readOverflowText } from '../../../src/domain/model/overflow-limit.ts';

type Row = [provider: string, text: string, scope: 'window' | 'input', limit: number, requested: number | null];

const rows: Row[] = [
  [
    'OpenAI',
    "This model's maximum context length is 128000 tokens. However, your messages resulted in 204308 tokens (202767 in the messages, 101 in the functions). Please reduce the length of the messages.",
    'window',
    128_000,
    204_308,
  ],
  [
    'OpenAI GPT-5',
    'Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 289650 tokens.',
    'input',
    272_000,
    289_650,
  ],
  ['Anthropic', 'prompt is too long: 208310 tokens > 200000 maximum', 'window', 200_000, 208_310],
  [
    'Anthropic with max_tokens',
    'input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000, decrease input length or max_tokens and try again',
    'window',
    200_000,
    222_000,
  ],
  [
    'Google',
    'The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).',
    'input',
    1_048_575,
    1_196_265,
  ],
  ['Vertex', 'The prompt exceeds the maximum number of tokens allowed 1048576', 'input', 1_048_576, null],
  [
    'Mistral',
    'Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length',
    'window',
    32_768,
    40_000,
  ],
  [
    'Cerebras',
    'Please reduce the length of the messages or completion. Current length is 42328 while limit is 40000',
    'window',
    40_000,
    42_328,
  ],
  [
    'xAI',
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens",
    'input',
    131_072,
    537_812,
  ],
  [
    'DeepSeek',
    "This model's maximum context length is 131072 tokens. However, you requested 131134 tokens (122942 in the messages, 8192 in the completion).",
    'window',
    131_072,
    131_134,
  ],
  [
    'OpenRouter',
    'This endpoint\'s maximum context length is 32768 tokens. However, you requested about 42832 tokens (42832 of text input). Please reduce the length of either one, or use the "middle-out" transform',
    'window',
    32_768,
    42_832,
  ],
  [
    'OpenRouter input',
    'Input length 140000 exceeds the maximum allowed input length of 131072 tokens.',
    'input',
    131_072,
    140_000,
  ],
  [
    'Together',
    "The input (61709 tokens) is longer than the model's context length (40960 tokens).",
    'window',
    40_960,
    61_709,
  ],
  [
    'SGLang',
    "Requested token count exceeds the model's maximum context length of 131072 tokens",
    'window',
    131_072,
    null,
  ],
  [
    'SGLang input',
    'Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens)',
    'input',
    59_862,
    160_062,
  ],
  [
    'vLLM',
    "This model's maximum context length is 262144 tokens. However, you requested 128000 output tokens and your prompt contains at least 134145 input tokens, for a total of at least 262145 tokens.",
    'window',
    262_144,
    262_145,
  ],
  [
    'vLLM of old',
    'The decoder prompt (length 9000) is longer than the maximum model length of 8192',
    'input',
    8_192,
    9_000,
  ],
  [
    'llama.cpp',
    'request (9412 tokens) exceeds the available context size (8192 tokens), try increasing it',
    'window',
    8_192,
    9_412,
  ],
  [
    'llama.cpp as JSON',
    '{"type":"exceed_context_size_error","n_prompt_tokens":9412,"n_ctx":8192}',
    'window',
    8_192,
    9_412,
  ],
  [
    'LM Studio',
    'The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 10978 >= n_ctx: 8192). Try to load the model with a larger context length',
    'window',
    8_192,
    10_978,
  ],
  ['GitHub Copilot', 'prompt token count of 168929 exceeds the limit of 168000', 'input', 168_000, 168_929],
  ['Kimi', 'Your request exceeded model token limit: 262144 (requested: 300000)', 'window', 262_144, 300_000],
];

const numbersIn = (text: string) => readOverflowText(text, () => true)?.numbers ?? null;

describe('the limit in an overflow error', () => {
  test.each(rows)('of %s is read', (_, text, scope, limit, requested) => {
    expect(numbersIn(text)).toMatchObject({ scope, limitTokens: limit, requestedTokens: requested });
  });

  test('tells input and output apart where the provider does: then a smaller output may be enough', () => {
    expect(numbersIn(rows.find(([provider]) => provider === 'DeepSeek')?.[1] ?? '')).toMatchObject({
      inputTokens: 122_942,
      outputTokens: 8_192,
      outputRoomTokens: 8_130,
    });
    expect(numbersIn(rows.find(([provider]) => provider === 'vLLM')?.[1] ?? '')).toMatchObject({
      inputTokens: 134_145,
      outputTokens: 128_000,
      // "At least": how much room there really is, the text does not know.
      outputRoomTokens: null,
    });
    expect(numbersIn('exceed context limit: 190,000 + 32,000 > 200,000')).toMatchObject({
      inputTokens: 190_000,
      outputTokens: 32_000,
      limitTokens: 200_000,
      outputRoomTokens: 10_000,
    });
  });

  test.each([
    ['Your input exceeds the context window of this model'],
    ['Input is too long for requested model.'],
    ['Too many tokens, please wait before trying again.'],
    ['Rate limit reached: Limit 30000, Requested 45000 tokens per min'],
    ['prompt is too long: 12 tokens > 10 maximum'],
    [''],
  ])('is not made up from %j', (text) => {
    expect(numbersIn(text)).toBeNull();
  });

  test('is not read from a prompt that the error quotes at length', () => {
    const quoted = `Input is too long for requested model. ${'x '.repeat(1_000)} prompt is too long: 9000 tokens > 8000 maximum`;
    expect(numbersIn(quoted)).toBeNull();
  });

  test('is remembered as what it limits, and not where it is the rate of an account', () => {
    const numbers = { limitTokens: 1_000, isLasting: true };
    expect(lessonOfNumbers({ ...numbers, scope: 'window' })?.limits).toEqual({ contextWindow: 1_000 });
    expect(lessonOfNumbers({ ...numbers, scope: 'input' })?.limits).toEqual({ inputLimit: 1_000 });
    expect(lessonOfNumbers({ ...numbers, scope: 'window', isLasting: false })).toBeNull();
    expect(lessonOfNumbers({ ...numbers, scope: 'window', limitTokens: null })).toBeNull();
  });
});
