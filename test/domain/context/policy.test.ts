import { describe, expect, it } from 'vitest';
import { contextPolicySchema, SAME_MODEL, STRATEGIES } from '../../../src/domain/context/policy.ts';

const isValid = (policy: unknown): boolean => contextPolicySchema.safeParse(policy).success;

describe('what an agent says about its context', () => {
  it('may be nothing: everything has a default', () => {
    expect(contextPolicySchema.parse({})).toEqual({
      auto: true,
      thresholds: {},
      compaction: { strategy: 'reactive-overflow', model: SAME_MODEL, options: {} },
      prune: { enabled: true, protectedTools: [] },
    });
  });

  it('leaves the rest at its default where it says one thing', () => {
    const policy = contextPolicySchema.parse({ compaction: { strategy: 'manual' }, prune: { enabled: false } });
    expect(policy.compaction).toEqual({ strategy: 'manual', model: SAME_MODEL, options: {} });
    expect(policy.prune.protectedTools).toEqual([]);
  });

  it.each(STRATEGIES)('may name the strategy %s', (strategy) => {
    expect(isValid({ compaction: { strategy } })).toBe(true);
  });

  it.each([
    ['a strategy that there is not', { compaction: { strategy: 'hope' } }],
    ['a word that is misspelt', { compaktion: {} }],
    ['an option that is misspelt', { compaction: { options: { keepRecent: 5 } } }],
    ['a threshold at which nothing ever fits', { compaction: { options: { thresholdPercent: 4 } } }],
    ['a threshold at which it is too late', { compaction: { options: { thresholdPercent: 96 } } }],
    ['a share above all of it', { thresholds: { compactAt: 1.1 } }],
    ['a share of nothing', { thresholds: { tail: 0 } }],
    ['no messages to keep', { compaction: { options: { keepRecentMessages: 0 } } }],
    ['half a token', { maxContextTokens: 0.5 }],
  ])('is refused with %s', (_what, policy) => {
    expect(isValid(policy)).toBe(false);
  });
});
