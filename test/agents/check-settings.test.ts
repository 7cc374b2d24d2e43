import { describe, expect, it } from 'vitest';
import { checkSettings } from '../../src/model/check-settings.ts';
import { createModels } from '../../src/model/providers.ts';

const models = createModels({ openaiApiKey: 'sk', anthropicApiKey: 'sk' });
const check = (model: string, settings: object) => () => checkSettings({ model, settings }, models);

describe('the settings of an agent, when it is loaded', () => {
  it('are refused by their keys where its model has no word for them', () => {
    expect(check('openai/gpt-5.4', { seed: 1, topK: 3 })).toThrow(
      /^settings\.topK: openai\/gpt-5\.4 \(openai-responses\) takes none; settings\.seed: /,
    );
    expect(check('anthropic/claude-opus-4-8', { temperature: 1.2 })).toThrow(/^settings\.temperature: at most 1 /);
  });

  it('are taken where it has, and where nobody knows', () => {
    expect(check('openai-chat/gpt-5.4', { seed: 1, stopSequences: ['x'] })).not.toThrow();
    expect(check('anthropic/claude-opus-4-8', { topK: 3, reasoning: 'max' })).not.toThrow();
    expect(check('elsewhere/model', { seed: 1, topK: 3 })).not.toThrow();
  });
});
