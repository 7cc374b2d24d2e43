import { expect, test } from 'vitest';
import { didYouMean } from '../../src/domain/did-you-mean.ts';

const KNOWN = ['tools', 'toolLimits', 'maxSteps', 'model', 'models', 'instructions'];

test.each([
  ['tolos', 'tools'],
  ['max_steps', 'maxSteps'],
  ['instrucitons', 'instructions'],
  ['Model', 'model'],
  ['toollimit', 'toolLimits'],
])('%s is taken for %s', (name, meant) => {
  expect(didYouMean(name, KNOWN)).toBe(` (did you mean "${meant}"?)`);
});

test.each(['colour', '', 'xx', 'a'.repeat(100_000)])('nothing is taken for what is close to nothing (%#)', (name) => {
  expect(didYouMean(name, KNOWN)).toBe('');
});
