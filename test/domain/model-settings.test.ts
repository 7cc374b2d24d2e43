import { describe, expect, it } from 'vitest';
import { bindsThinking, claudeVersion } from '../../src/domain/model/claude-version.ts';
import {
  type ModelSettings,
  modelSettingsSchema,
  planThinking,
  REASONING_LEVELS,
  SETTING_FIELDS,
  settingProblems,
} from '../../src/domain/model/model-settings.ts';
import { MODEL_PROTOCOLS, type ModelProtocol } from '../../src/domain/model/shown-media.ts';

describe('the settings of a model', () => {
  it('have a row for each protocol, and each row a word on every setting', () => {
    expect(Object.keys(SETTING_FIELDS).toSorted()).toEqual([...MODEL_PROTOCOLS].toSorted());
    const names = Object.keys(modelSettingsSchema.shape).toSorted();
    for (const fields of Object.values(SETTING_FIELDS)) expect(Object.keys(fields).toSorted()).toEqual(names);
  });

  it.each<[ModelProtocol, ModelSettings, string[]]>([
    ['openai-responses', { topK: 5, seed: 1, stopSequences: ['x'], topP: 0.5 }, ['topK', 'seed', 'stopSequences']],
    ['openai-chat', { topK: 5, seed: 1, stopSequences: ['x'] }, ['topK']],
    ['openai-compatible', { topK: 5, seed: 1, stopSequences: ['x'], temperature: 2 }, []],
    ['anthropic-messages', { topK: 5, seed: 1, stopSequences: ['x'], temperature: 1 }, ['seed']],
    ['anthropic-messages', { temperature: 1.5 }, ['temperature']],
  ])('that %s has no word for are told of: %j', (protocol, settings, expected) => {
    expect(settingProblems(protocol, 'p/m', settings).map(({ name }) => name)).toEqual(expected);
  });
});

describe('a model of Anthropic’s', () => {
  it.each([
    ['claude-opus-4-8', 408],
    ['claude-sonnet-4-5-20250929', 405],
    ['claude-opus-4-20250514', 400],
    ['claude-sonnet-5', 500],
    ['claude-opus-5-1', 501],
    ['claude-3-7-sonnet-20250219', 307],
    ['claude-3-haiku-20240307', 300],
    ['some-model', null],
  ])('is known by its name: %s', (modelId, version) => {
    expect(claudeVersion(modelId)).toBe(version);
    expect(bindsThinking(modelId)).toBe(version === 501);
  });

  const adaptive = { type: 'adaptive', display: 'summarized' } as const;
  it.each([
    ['claude-opus-4-8', 'high', { thinking: adaptive, level: 'high', maxOutputTokens: 10_000 }],
    ['claude-opus-4-8', 'none', { thinking: { type: 'disabled' }, maxOutputTokens: 10_000 }],
    ['claude-opus-5-1', 'low', { thinking: adaptive, level: 'low', maxOutputTokens: 10_000 }],
    ['claude-opus-5-1', 'none', { effort: 'low', maxOutputTokens: 10_000 }],
    ['claude-haiku-4-5', 'medium', { thinking: { type: 'enabled', budgetTokens: 3_000 }, maxOutputTokens: 7_000 }],
    ['claude-haiku-4-5', 'minimal', { thinking: { type: 'enabled', budgetTokens: 1_024 }, maxOutputTokens: 8_976 }],
    ['claude-haiku-4-5', 'max', { thinking: { type: 'enabled', budgetTokens: 8_976 }, maxOutputTokens: 1_024 }],
    ['claude-haiku-4-5', 'none', { maxOutputTokens: 10_000 }],
    ['claude-3-5-haiku-20241022', 'high', { maxOutputTokens: 10_000 }],
    ['other-model', 'high', { thinking: { type: 'enabled', budgetTokens: 6_000 }, maxOutputTokens: 4_000 }],
  ] as const)('%s thinks as it can (%s)', (modelId, level, expected) => {
    expect(planThinking(modelId, level, 10_000, false)).toEqual(expected);
  });

  it.each(REASONING_LEVELS)(
    'that has a budget keeps within what its answer may have, thinking included (%s)',
    (level) => {
      for (const maxOutputTokens of [1, 1_500, 2_047, 2_048, 32_000]) {
        const { thinking, maxOutputTokens: left } = planThinking('claude-haiku-4-5', level, maxOutputTokens, false);
        const budget = thinking?.type === 'enabled' ? thinking.budgetTokens : 0;
        expect(left + budget).toBe(maxOutputTokens);
        expect(left).toBeGreaterThan(0);
        if (budget > 0) expect(budget).toBeGreaterThanOrEqual(1_024);
      }
    },
  );

  it('with a budget does not begin to think in the middle of its calls: that is refused', () => {
    expect(planThinking('claude-haiku-4-5', 'high', 10_000, true)).toEqual({ maxOutputTokens: 10_000 });
    expect(planThinking('claude-opus-4-8', 'high', 10_000, true)).toMatchObject({ thinking: adaptive });
  });
});
