import { describe, expect, test } from 'vitest';
import { usableOf } from '../../../src/domain/context/limits.ts';
import {
  findModel,
  limitsOf,
  MODEL_REGISTRY,
  mergeModels,
  modelEntrySchema,
  modelOverrideSchema,
  tierOf,
  UNKNOWN_MODEL,
} from '../../../src/domain/context/model-registry.ts';

describe('the registry of models', () => {
  test.each(MODEL_REGISTRY.map((entry) => [`${entry.provider}/${entry.model}`, entry] as const))(
    '%s is described in a valid way',
    (name, entry) => {
      expect(modelEntrySchema.parse(entry)).toEqual(entry);
      expect(entry.maxOutput).toBeLessThanOrEqual(entry.contextWindow);
      expect(entry.inputLimit ?? 0).toBeLessThan(entry.contextWindow);
      expect(usableOf(limitsOf(entry))).toBeGreaterThan(entry.contextWindow / 2);
      if (entry.prices?.cachedInput != null) expect(entry.prices.cachedInput).toBeLessThan(entry.prices.input);
      expect(findModel(name)).toBe(entry);
    },
  );

  test('holds about forty models, none twice', () => {
    const names = MODEL_REGISTRY.map((entry) => `${entry.provider}/${entry.model}`);
    expect(new Set(names).size).toBe(names.length);
    expect(names.length).toBeGreaterThanOrEqual(40);
  });

  test('has what the unknown model is assumed to be', () => {
    expect(modelEntrySchema.parse(UNKNOWN_MODEL)).toMatchObject({ contextWindow: 16_000, maxOutput: 4_000 });
  });
});

describe('a model is found', () => {
  test.each([
    ['openai/gpt-5.4-2026-03-05', 'gpt-5.4'],
    ['openai/gpt-5.4-mini-2026-03-17', 'gpt-5.4-mini'],
    ['openai/gpt-5.4-mini', 'gpt-5.4-mini'],
    ['openai/gpt-4o-2024-08-06', 'gpt-4o'],
    ['gpt-4.1', 'gpt-4.1'],
    ['azure/gpt-5.5', 'gpt-5.5'],
    ['anthropic/claude-sonnet-4-5-20250929', 'claude-sonnet-4-5'],
    ['openrouter/anthropic/claude-opus-4.8', 'claude-opus-4-8'],
    ['openrouter/anthropic/Claude-Opus-4.8:thinking', 'claude-opus-4-8'],
    ['bedrock/us.anthropic.claude-haiku-4-5-20251001-v1:0', 'claude-haiku-4-5'],
    ['vertex/claude-opus-4-8@20260528', 'claude-opus-4-8'],
    ['groq/openai/gpt-oss-120b', 'gpt-oss-120b'],
  ])('%s is %s', (name, model) => {
    expect(findModel(name)?.model).toBe(model);
  });

  test.each(['openai/gpt-4', 'openai/gpt-5.9', 'openai/o33', 'ollama/llama3', 'anthropic/claude', 'gpt', '', '/'])(
    '%s is not known',
    (name) => {
      expect(findModel(name)).toBeNull();
    },
  );

  test('at its own provider first', () => {
    expect(findModel('cerebras/gpt-oss-120b')).toMatchObject({ provider: 'cerebras', maxOutput: 40_960 });
    expect(findModel('groq/openai/gpt-oss-120b')).toMatchObject({ provider: 'groq', maxOutput: 65_536 });
  });

  test('without a price where another provider serves it', () => {
    expect(findModel('openai/gpt-4.1')?.prices).toEqual({ input: 2, cachedInput: 0.5, cacheWrite: null, output: 8 });
    expect(findModel('openrouter/openai/gpt-4.1')).toMatchObject({ contextWindow: 1_047_576, prices: null });
  });

  test('with the tokenizer of its family, or none', () => {
    const tiers = ['openai/gpt-5.4', 'groq/openai/gpt-oss-120b', 'anthropic/claude-opus-4-8', 'xai/grok-4.3'].map(
      (name) => tierOf(findModel(name) ?? UNKNOWN_MODEL),
    );
    expect(tiers).toEqual(['exact', 'exact', 'estimate', 'estimate']);
  });
});

describe('overrides', () => {
  test('replace the fields that they name and keep the others', () => {
    const override = modelOverrideSchema.parse({
      provider: 'openai',
      model: 'gpt-5.5',
      inputLimit: 272_000,
      prices: undefined,
    });
    const before = findModel('openai/gpt-5.5');
    const merged = mergeModels(MODEL_REGISTRY, [override]);
    expect(findModel('openai/gpt-5.5-2026-04-23', merged)).toEqual({ ...before, inputLimit: 272_000 });
    expect(merged).toHaveLength(MODEL_REGISTRY.length);
  });

  test('add a model, completed by what is assumed of an unknown one', () => {
    const merged = mergeModels(MODEL_REGISTRY, [{ provider: 'local', model: 'llama3', contextWindow: 8_192 }]);
    const found = findModel('local/llama3:8b', merged);
    expect(modelEntrySchema.parse(found)).toEqual({
      ...UNKNOWN_MODEL,
      provider: 'local',
      model: 'llama3',
      contextWindow: 8_192,
    });
  });

  test('describe a model at another provider without touching the original', () => {
    const merged = mergeModels(MODEL_REGISTRY, [
      { provider: 'azure', model: 'gpt-4.1', contextWindow: 300_000, maxOutput: 16_384 },
    ]);
    expect(findModel('azure/gpt-4.1', merged)?.contextWindow).toBe(300_000);
    expect(findModel('openai/gpt-4.1', merged)).toEqual(findModel('openai/gpt-4.1'));
  });

  test('must name provider and model, and nothing that does not exist', () => {
    for (const override of [{ model: 'x' }, { provider: 'x' }, { provider: 'x', model: 'y', window: 1 }]) {
      expect(modelOverrideSchema.safeParse(override).success).toBe(false);
    }
    expect(modelOverrideSchema.safeParse({ provider: 'x', model: 'y', contextWindow: 0 }).success).toBe(false);
  });
});
