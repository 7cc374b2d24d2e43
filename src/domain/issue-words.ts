import type { z } from 'zod';

/** For people. For a missing value zod itself says that it received undefined. */
export function issueWords(issue: z.core.$ZodIssue): string {
  if (issue.code !== 'invalid_type' || !issue.message.endsWith('received undefined')) return issue.message;
  return `is missing (expected ${issue.expected})`;
}
