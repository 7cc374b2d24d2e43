import type { z } from 'zod';
import { issueWords } from './issue-words.ts';

type Issue = z.core.$ZodIssue;
type Path = readonly PropertyKey[];

/** One wrong field. `path` is dotted: `limits.maxSteps`, `content.0.text`. Empty: the whole value. */
export type FieldError = Readonly<{ path: string; message: string }>;

/** Keeps the answer to a request with a thousand mistakes readable. */
const MAX_REPORTED_ERRORS = 20;
const MAX_NAME_CHARS = 100;

const joinPath = (path: Path): string => path.map((key) => shorten(String(key))).join('.');
const shorten = (name: string): string =>
  (name.length > MAX_NAME_CHARS ? `${name.slice(0, MAX_NAME_CHARS)}…` : name).toWellFormed();

/** Each wrong field of a zod error by its path; unknown fields by their names. */
export function fieldErrors(error: Readonly<{ issues: readonly Issue[] }>): FieldError[] {
  const reported = error.issues.slice(0, MAX_REPORTED_ERRORS);
  return reported.flatMap((issue) => fromIssue(issue, [])).slice(0, MAX_REPORTED_ERRORS);
}

function fromIssue(issue: Issue, parent: Path): FieldError[] {
  const path = [...parent, ...issue.path];
  if (issue.code === 'unrecognized_keys') {
    return issue.keys
      .slice(0, MAX_REPORTED_ERRORS)
      .map((key) => ({ path: joinPath([...path, key]), message: 'unknown field' }));
  }
  if (issue.code === 'invalid_union') return fromUnion(issue, path);
  if (issue.code === 'invalid_key') {
    return issue.issues.map((inner) => ({ path: joinPath(path), message: `the key: ${inner.message}` }));
  }
  return [{ path: joinPath(path), message: shorten(issueWords(issue)) }];
}

/** The errors of the union's branch that has the value's type, which the caller meant. */
function fromUnion(issue: z.core.$ZodIssueInvalidUnion, path: Path): FieldError[] {
  const intended = issue.errors.find((branch) => !branch.some((inner) => isWrongType(inner)));
  if (intended !== undefined) return intended.flatMap((inner) => fromIssue(inner, path));
  const expected = issue.errors.flatMap((branch) => branch.flatMap((inner) => expectedType(inner)));
  const message = expected.length === 0 ? issue.message : `Invalid input: expected ${expected.join(' or ')}`;
  return [{ path: joinPath(path), message }];
}

const isWrongType = (issue: Issue): boolean => issue.code === 'invalid_type' && issue.path.length === 0;
const expectedType = (issue: Issue): string[] =>
  issue.code === 'invalid_type' && issue.path.length === 0 ? [issue.expected] : [];
