import { calcPrice, type Provider, waitForUpdate } from '@pydantic/genai-prices';
import { describe, expect, test } from 'vitest';
import { costOf } from '../../src/domain/context/limits/cost.ts';
import { openPriceRegistry } from '../../src/model/price-registry.ts';
import { usageOf } from '../domain/context/measure-view.ts';

const registry = await openPriceRegistry();
/** As the package comes: it fetches others only where it is told how. */
const bundled = (await waitForUpdate()) ?? [];
const AT = new Date('2026-11-21T05:00:00Z');

const find = (vendor: string | null, modelId: string, at = AT) =>
  registry.find({ provider: 'any', modelId, vendor }, at);

describe('a model is found', () => {
  // Models of several makers, by the names under which people configure them.
  test.each([
    ['openai', 'gpt-4-turbo', 128_000],
    ['openai', 'gpt-4', 8_192],
    ['openai', 'gpt-3.5-turbo', 16_385],
    ['openai', 'gpt-4o', 128_000],
    ['openai', 'gpt-4o-mini', 128_000],
    ['anthropic', 'claude-3.5-sonnet', 200_000],
    ['anthropic', 'claude-3-opus', 200_000],
    ['anthropic', 'claude-3-sonnet', 200_000],
    ['anthropic', 'claude-3-haiku', 200_000],
    ['google', 'gemini-pro', 32_768],
    ['google', 'gemini-1.5-pro', 1_000_000],
    ['anthropic', 'claude-sonnet-4-20250514', 200_000],
    ['anthropic', 'claude-3-7-sonnet', 200_000],
    ['google', 'gemini-2.0-flash', 1_000_000],
    ['deepseek', 'deepseek-chat', 64_000],
    ['openai', 'gpt-oss-20b', 131_072],
    ['openai', 'gpt-5.4-2026-03-05', 1_050_000],
    ['openrouter', 'anthropic/claude-opus-4.8', 1_000_000],
    ['aws', 'us.anthropic.claude-haiku-4-5-20251001-v1:0', 200_000],
    ['azure', 'gpt-5.5', 1_000_000],
  ])('at %s: %s', (vendor, modelId, contextWindow) => {
    const found = find(vendor, modelId);
    expect(found).toMatchObject({ contextWindow });
    expect(found?.prices).not.toBeNull();
  });

  test('with its own price, not that of a model whose name begins so', () => {
    expect(find('openai', 'o3')?.prices).toMatchObject({ input: 2, output: 8 });
    expect(find('openai', 'o3-pro')?.prices).toMatchObject({ input: 20, output: 80 });
    expect(find('openai', 'o1-pro')?.prices).toMatchObject({ input: 150, output: 600 });
    expect(find('openai', 'gpt-4.5-preview')?.prices).toMatchObject({ input: 75, output: 150 });
    expect(find('anthropic', 'claude-opus-4-20250514')?.prices).toMatchObject({ input: 15, output: 75 });
  });

  test('in a version with a date that the registry does not have', () => {
    expect(find('openai', 'gpt-5.4-2031-05-01')).toEqual(find('openai', 'gpt-5.4'));
  });

  test('without prices where nobody knows who serves it', () => {
    for (const modelId of ['gpt-4.1', 'openai/gpt-4.1', 'bedrock/anthropic/claude-opus-4.8']) {
      const found = find(null, modelId);
      expect(found?.contextWindow).toBeGreaterThanOrEqual(1_000_000);
      expect(found?.prices).toBeNull();
    }
  });

  test('not at all where neither the vendor nor anybody else has it', () => {
    for (const [vendor, modelId] of [
      ['openai', 'gpt-99'],
      [null, 'llama3.2'],
      [null, ''],
      [null, '/'],
    ] as const) {
      expect(find(vendor, modelId)).toBeNull();
    }
  });

  test('free of charge where its reseller says so, and at no price that is not known', () => {
    expect(find('openrouter', 'openai/gpt-oss-20b:free')?.prices).toMatchObject({ input: 0, output: 0 });
    expect(find('google', 'gemini-embedding-001')?.prices).toBeNull();
  });

  test('with the price of the hour', () => {
    const at = (hour: string) => find('deepseek', 'deepseek-v4-pro', new Date(`2026-11-21T${hour}:30:00Z`))?.prices;
    expect(at('02')).not.toEqual(at('12'));
  });
});

describe('the vendor of an endpoint', () => {
  test.each([
    ['https://api.openai.com/v1', 'openai'],
    ['https://api.anthropic.com/v1', 'anthropic'],
    ['https://openrouter.ai/api/v1', 'openrouter'],
    ['https://api.groq.com/openai/v1', 'groq'],
    ['https://x.openai.azure.com/openai', 'azure'],
    ['https://generativelanguage.googleapis.com/v1beta/openai', 'google'],
    ['http://127.0.0.1:11434/v1', null],
    ['https://llm.example.com/v1', null],
    ['default', null],
  ])('%s is %s', (baseUrl, vendor) => {
    expect(registry.vendorOf(baseUrl)).toBe(vendor);
  });
});

test('a call costs what the registry itself makes of it, for every model that it prices by tokens', () => {
  const usage = { inputTokens: 310_000, cacheReadTokens: 50_000, cacheWriteTokens: 7_000, outputTokens: 9_000 };
  const theirs = {
    input_tokens: usage.inputTokens,
    cache_read_tokens: usage.cacheReadTokens,
    cache_write_tokens: usage.cacheWriteTokens,
    output_tokens: usage.outputTokens,
  };
  let compared = 0;
  for (const { id: providerId, models } of bundled satisfies Provider[]) {
    for (const { id } of models) {
      const expected = calcPrice(theirs, id, { providerId, timestamp: AT });
      const found = expected === null ? null : find(providerId, id);
      if (expected === null || found?.prices == null) continue;
      expect(costOf(usageOf(usage), found), `${providerId}/${id}`).toBeCloseTo(expected.total_price, 9);
      compared++;
    }
  }
  expect(compared).toBeGreaterThan(1_000);
});
