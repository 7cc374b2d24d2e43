import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { PROFILE_NAMES } from '../../simulator/profiles.ts';
import { REMEDY_RULES } from '../../src/domain/model/remedies/remedy-rules.ts';
import { CONVERSATIONS_PER_RUN, ENDPOINTS } from '../flow/endpoint-talk.ts';
import { DEFAULT_RUNS } from '../support/property-runs.ts';

const text = readFileSync(path.join(import.meta.dirname, '../../docs/providers.md'), 'utf8');
const found = (pattern: RegExp): string => pattern.exec(text)?.[1] ?? `nothing like ${pattern}`;

it('the numbers of conversations are those of the test', () => {
  expect(found(/all (\d+) pairs of an endpoint/)).toBe(String(ENDPOINTS.length ** 2));
  expect(found(/plays (\d+) of them/)).toBe(String(DEFAULT_RUNS * CONVERSATIONS_PER_RUN));
  const runs = Number(found(/BATON_TEST_RUNS=(\d+) BATON_TEST_SEED=\d+ npx vitest run test\/flow\/endpoint-pairs/));
  expect(found(/endpoint-pairs\.test\.ts` plays (\d+) others/)).toBe(String(runs * CONVERSATIONS_PER_RUN));
});

it('the families of which only words are tried have a rule with their name, and the profiles a row', () => {
  const families = found(/rows of `test\/domain\/remedies\.test\.ts`: (.+)\.$/m).split(', ');
  const known = REMEDY_RULES.map(({ provider }) => provider).join('\n');
  expect(families.filter((family) => !known.includes(family))).toEqual([]);
  const rows = found(/\| family \| wants or does \| works \|\n([\s\S]+?)\n\n/);
  const names: Readonly<Record<string, string>> = {
    'deepseek-anthropic': '`deepseek-anthropic`',
    'gemini-compat': 'Gemini, compatible',
    gateway: 'gateways',
    lmstudio: 'LM Studio',
    openai: '`openai`',
    bedrock: '`bedrock`',
    'responses-pool': '`responses-pool`',
    'responses-plain': '`responses-plain`',
  };
  const missing = PROFILE_NAMES.filter((name) => !rows.toLowerCase().includes((names[name] ?? name).toLowerCase()));
  expect(missing).toEqual([]);
});
