import { describe, expect, it } from 'vitest';
import {
  contextPolicySchema,
  isStartedBy,
  SAME_MODEL,
  STRATEGIES,
  summarizingAgent,
} from '../../../src/domain/context/limits/policy.ts';

const isValid = (policy: unknown): boolean => contextPolicySchema.safeParse(policy).success;

describe('what an agent says about its context', () => {
  it('may be nothing: everything has a default', () => {
    expect(contextPolicySchema.parse({})).toEqual({
      compaction: { strategy: 'auto', model: SAME_MODEL, options: {}, notice: 'comment' },
      prune: { enabled: true, protectedTools: [] },
    });
  });

  it('leaves the rest at its default where it says one thing', () => {
    const policy = contextPolicySchema.parse({ compaction: { strategy: 'manual' }, prune: { enabled: false } });
    expect(policy.compaction).toEqual({ strategy: 'manual', model: SAME_MODEL, options: {}, notice: 'comment' });
    expect(policy.prune.protectedTools).toEqual([]);
  });

  it.each([...STRATEGIES, 'module:./compactors/mine.ts', 'module:/opt/mine.ts#mine'])(
    'may name the strategy %s',
    (strategy) => {
      expect(isValid({ compaction: { strategy } })).toBe(true);
    },
  );

  it.each([
    ['auto', true, true],
    ['reactive-overflow', false, true],
    ['proactive-threshold', true, true],
    ['middle-removal', true, true],
    ['pruning-agent', true, true],
    ['manual', false, false],
    ['module:./mine.ts', true, true],
  ])('has %s start by its threshold (%s) and by an overflow (%s)', (strategy, byThreshold, byOverflow) => {
    const policy = contextPolicySchema.parse({ compaction: { strategy } });
    expect([isStartedBy(policy, 'threshold'), isStartedBy(policy, 'overflow')]).toEqual([byThreshold, byOverflow]);
  });

  it.each(['__same__', 'openai/gpt-5.4-mini', 'ollama/org/model:7b', 'agent:scribe'])(
    'may have %s summarize',
    (model) => {
      expect(isValid({ compaction: { model } })).toBe(true);
    },
  );

  it('names an agent that summarizes, or none', () => {
    const named = (model: string) => summarizingAgent(contextPolicySchema.parse({ compaction: { model } }));
    expect(['agent:scribe', 'agent/scribe', SAME_MODEL].map(named)).toEqual(['scribe', null, null]);
  });

  it.each([
    ['a strategy that there is not', { compaction: { strategy: 'hope' } }],
    ['a module without a path', { compaction: { strategy: 'module:#mine' } }],
    ['an export that no module can have', { compaction: { strategy: 'module:./mine.ts#my-own' } }],
    ['a summarizer without its provider', { compaction: { model: 'gpt-5.4-mini' } }],
    ['a summarizer that is misspelt', { compaction: { model: '__sam__' } }],
    ['an agent without a name', { compaction: { model: 'agent:' } }],
    ['a word that is misspelt', { compaktion: {} }],
    ['an option that is misspelt', { compaction: { options: { keepRecent: 5 } } }],
    ['a threshold at which nothing ever fits', { compaction: { options: { thresholdPercent: 4 } } }],
    ['a threshold at which it is too late', { compaction: { options: { thresholdPercent: 96 } } }],
    ['a threshold of a prune that is a share', { prune: { thresholdPercent: 0.5 } }],
    ['thresholds, which have their place at what they start', { thresholds: { compactAt: 0.7 } }],
    ['auto, which is a strategy', { auto: false }],
    ['no messages to keep', { compaction: { options: { keepRecentMessages: 0 } } }],
    ['half a token', { maxContextTokens: 0.5 }],
  ])('is refused with %s', (_what, policy) => {
    expect(isValid(policy)).toBe(false);
  });
});
