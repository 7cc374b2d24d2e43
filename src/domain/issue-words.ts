import type { z } from 'zod';

type Issue = z.core.$ZodIssue;
type BoundIssue = z.core.$ZodIssueTooSmall | z.core.$ZodIssueTooBig;

/** For people: zod says of a missing value that it received undefined, and of a bound that it is `>=1`. */
export function issueWords(issue: Issue): string {
  if (issue.code === 'too_small' || issue.code === 'too_big') return boundWords(issue);
  if (issue.code !== 'invalid_type' || !issue.message.endsWith('received undefined')) return issue.message;
  return `is missing (expected ${issue.expected})`;
}

/** The unit behind the number of a bound, by the kind of value. */
const COUNTED: Readonly<Record<string, string>> = {
  string: 'character',
  array: 'item',
  set: 'item',
  map: 'item',
  object: 'field',
};
const NUMBERS: ReadonlySet<string> = new Set(['number', 'int', 'bigint']);

function boundWords(issue: BoundIssue): string {
  const isSmall = issue.code === 'too_small';
  // A schema with words of its own has better ones.
  if (!/^Too (small|big):/.test(issue.message)) return issue.message;
  const bound = String(isSmall ? issue.minimum : issue.maximum);
  const counted = COUNTED[issue.origin];
  if (isSmall && counted !== undefined && bound === '1' && issue.inclusive) return 'must not be empty';
  const [inclusive, exclusive] = isSmall ? ['at least', 'more than'] : ['at most', 'less than'];
  const words = issue.exact ? 'exactly' : issue.inclusive === false ? exclusive : inclusive;
  if (counted !== undefined) return `must have ${words} ${bound} ${counted}${bound === '1' ? '' : 's'}`;
  return NUMBERS.has(issue.origin) ? `must be ${words} ${bound}` : issue.message;
}
