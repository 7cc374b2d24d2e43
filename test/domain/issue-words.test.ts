import { expect, test } from 'vitest';
import { z } from 'zod';
import { issueWords } from '../../src/domain/issue-words.ts';

const wordsOf = (schema: z.ZodType, value: unknown): string[] => {
  const { error } = schema.safeParse(value);
  return (error?.issues ?? []).map(issueWords);
};

test.each([
  [z.string().min(1), '', 'must not be empty'],
  [z.array(z.int()).min(1), [], 'must not be empty'],
  [z.string().min(2), 'a', 'must have at least 2 characters'],
  [z.string().max(2), 'abc', 'must have at most 2 characters'],
  [z.string().length(2), 'abc', 'must have exactly 2 characters'],
  [z.array(z.int()).max(1), [1, 2], 'must have at most 1 item'],
  [z.number().min(0), -5, 'must be at least 0'],
  [z.number().gt(0), 0, 'must be more than 0'],
  [z.int().max(9), 10, 'must be at most 9'],
  [z.number().lt(9), 9, 'must be less than 9'],
  [z.string().min(1, 'must not be blank'), '', 'must not be blank'],
  [z.object({ a: z.string() }), {}, 'is missing (expected string)'],
])('a refusal says in plain words what a value must be (%#)', (schema, value, words) => {
  expect(wordsOf(schema, value)).toEqual([words]);
});
