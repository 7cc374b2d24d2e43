import type { z } from 'zod';

/** What is wrong with a value, for people: zod says of one that is missing that it received undefined. */
export function issueWords(issue: z.core.$ZodIssue): string {
  if (issue.code !== 'invalid_type' || !issue.message.endsWith('received undefined')) return issue.message;
  return `is missing (expected ${issue.expected})`;
}
