import { describe, expect, test } from 'vitest';
import {
  entryOf,
  type ModelFacts,
  type ModelOverride,
  modelOverrideSchema,
  tierOf,
  UNKNOWN_MODEL,
} from '../../../src/domain/context/limits/model-entry.ts';
import { traitsOf } from '../../../src/domain/context/limits/model-traits.ts';

const PRICES = { input: 2, cachedInput: 0.5, cacheWrite: null, output: 8, request: 0 };

/** The entry of the model `provider/model` with these facts. */
function entry(name: string, facts: Partial<ModelFacts> = {}, vendor: string | null = null) {
  const [provider = '', ...rest] = name.split('/');
  return entryOf(
    { provider, modelId: rest.join('/'), vendor },
    { registered: null, served: null, overrides: [], ...facts },
  );
}

describe('the traits of a model', () => {
  test.each([
    ['gpt-5.4-2026-03-05', 128_000],
    ['gpt-4o-2024-08-06', 16_384],
    ['openai/gpt-4.1', 32_768],
    ['claude-sonnet-4-5-20250929', 64_000],
    ['claude-sonnet-4-20250514', 64_000],
    ['anthropic/Claude-Opus-4.8:thinking', 128_000],
    ['us.anthropic.claude-haiku-4-5-20251001-v1:0', 64_000],
    ['claude-opus-4-8@20260528', 128_000],
    ['claude-3-5-sonnet-20241022', 8_192],
    ['gpt-4-turbo', 4_096],
    ['openai/gpt-oss-120b', 40_960],
  ])('are found of %s', (modelId, maxOutput) => {
    expect(traitsOf(modelId).maxOutput).toBe(maxOutput);
  });

  test('correct the registry of prices, which gives models of ChatGPT the window of their version', () => {
    const registered = { contextWindow: 400_000, prices: null };
    const name = { provider: 'openai', modelId: 'gpt-5.2-chat-latest', vendor: 'openai' };
    const described = entryOf(name, { registered, served: null, overrides: [] });
    expect([described.contextWindow, described.maxOutput, described.isGuessed]).toEqual([128_000, 16_384, false]);
  });

  test.each(['o33', 'llama3.2', 'egpt-5', ''])('are those of no other name: %s', (modelId) => {
    expect(traitsOf(modelId).family).toBe('unknown');
  });

  test('name the family of what is newer than the table', () => {
    const families = ['claude-opus-9', 'gpt-9', 'gemini-9-pro', 'grok-9', 'Qwen/Qwen3-8B', 'mistral:7b'];
    expect(families.map((modelId) => traitsOf(modelId).family)).toEqual([
      'claude',
      'openai',
      'gemini',
      'grok',
      'qwen',
      'mistral',
    ]);
  });

  test('have the tokenizer of their family, or none', () => {
    const tiers = ['openai/gpt-5.4', 'groq/openai/gpt-oss-120b', 'anthropic/claude-opus-4-8', 'openai/gpt-4'];
    expect(tiers.map((name) => tierOf(entry(name)))).toEqual(['exact', 'exact', 'estimate', 'estimate']);
  });
});

describe('what is known of a model', () => {
  test('of which nobody tells anything is a guess', () => {
    expect(entry('ollama/llama3.2')).toEqual(UNKNOWN_MODEL);
    expect(UNKNOWN_MODEL).toMatchObject({ contextWindow: 128_000, maxOutput: 16_000, prices: null, isGuessed: true });
  });

  test('is what the registry has, and the traits beside it', () => {
    const registered = { contextWindow: 400_000, prices: PRICES };
    expect(entry('openai/gpt-5.2', { registered })).toMatchObject({
      contextWindow: 400_000,
      inputLimit: 272_000,
      maxOutput: 128_000,
      prices: PRICES,
      isGuessed: false,
    });
  });

  test('by its traits alone has a window, where these tell one', () => {
    expect(entry('x/gemini-2.5-pro')).toMatchObject({ contextWindow: 1_048_576, isGuessed: false });
    const registered = { contextWindow: null, prices: PRICES };
    expect(entry('x/deepseek-r9', { registered })).toMatchObject({ prices: PRICES, isGuessed: true });
  });

  test('is what its endpoint tells, rather than what is known of it elsewhere', () => {
    const registered = { contextWindow: 400_000, prices: PRICES };
    const served = { contextWindow: 32_768, mediaTypes: [], tools: false };
    expect(entry('vllm/gpt-5.2', { registered, served })).toEqual({
      ...entry('vllm/gpt-5.2', { registered }),
      ...served,
      inputLimit: undefined,
      maxOutput: 32_768,
    });
    expect(entry('vllm/x', { served: { tools: false } })).toMatchObject({ tools: false, isGuessed: true });
  });

  test('of the simulator is a model of today that costs nothing', () => {
    const prices = { input: 0, output: 0 };
    expect(entry('simulated-chat/any')).toMatchObject({ contextWindow: 200_000, prices, isGuessed: false });
    const registered = { contextWindow: 1_000_000, prices: PRICES };
    expect(entry('simulated/deepseek-v4-pro', { registered })).toMatchObject({
      contextWindow: 1_000_000,
      mediaTypes: [],
      prices,
    });
  });
});

describe('the configuration', () => {
  const say = (...overrides: ModelOverride[]) => ({ overrides, served: { contextWindow: 4_096 } });

  test('has the last word, on what it names alone', () => {
    const registered = { contextWindow: 400_000, prices: PRICES };
    const told = { ...say({ provider: 'openai', model: 'gpt-5.2', contextWindow: 300_000 }), registered };
    expect(entry('openai/gpt-5.2-2025-12-11', told)).toMatchObject({ contextWindow: 300_000, prices: PRICES });
  });

  test('may tell a price and leave the window a guess', () => {
    const overrides = [modelOverrideSchema.parse({ provider: 'ollama', model: 'x', prices: { input: 0, output: 0 } })];
    expect(entry('ollama/x', { overrides })).toMatchObject({
      prices: { input: 0, cachedInput: null, cacheWrite: null, output: 0, request: 0 },
      isGuessed: true,
    });
  });

  test.each([
    ['gpt-5.4', 'gpt-5.4-2026-03-05', true],
    ['gpt-5.4', 'gpt-5.4', true],
    ['llama3', 'llama3:8b', true],
    ['claude-opus-4.8', 'claude-opus-4-8-20260528', true],
    ['claude-haiku', 'claude-haiku-latest', true],
    ['gpt-5.4', 'gpt-5.4-pro', false],
    ['gpt-5.4', 'gpt-5.4-mini-2026-03-17', false],
    ['o3', 'o3-pro', false],
    ['gpt-5.4*', 'gpt-5.4-pro', true],
    ['*', 'anything/at-all', true],
  ])('%s stands for %s: %s', (model, asked, stands) => {
    const found = entry(`p/${asked}`, { overrides: [{ provider: 'p', model, contextWindow: 5_000 }] });
    expect(found.contextWindow === 5_000).toBe(stands);
  });

  test('says most by the longest name, and by the name of the provider itself', () => {
    const overrides: ModelOverride[] = [
      { provider: 'p', model: 'm', contextWindow: 2_000, maxOutput: 500 },
      { provider: 'p', model: '*', contextWindow: 3_000, tools: false },
      { provider: 'vendor', model: 'm', contextWindow: 4_000, mediaTypes: ['image/png'] },
    ];
    const found = { contextWindow: 2_000, maxOutput: 500, tools: false, mediaTypes: ['image/png'] };
    expect(entry('p/m', { overrides }, 'vendor')).toMatchObject(found);
    expect(entry('q/m', { overrides }, 'vendor')).toMatchObject({ contextWindow: 4_000, tools: true });
    expect(entry('q/m', { overrides })).toEqual(UNKNOWN_MODEL);
  });

  test('must name provider and model, and nothing that does not exist', () => {
    for (const override of [{ model: 'x' }, { provider: 'x' }, { provider: 'x', model: 'y', window: 1 }]) {
      expect(modelOverrideSchema.safeParse(override).success).toBe(false);
    }
    expect(modelOverrideSchema.safeParse({ provider: 'x', model: 'y', contextWindow: 0 }).success).toBe(false);
    expect(modelOverrideSchema.safeParse({ provider: 'x', model: 'y', prices: { input: 1 } }).success).toBe(false);
  });
});
