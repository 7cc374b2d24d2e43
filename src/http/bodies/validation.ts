import type { MiddlewareHandler } from 'hono';
import type { z } from 'zod';
import { issueWords } from '../../domain/issue-words.ts';
import type { HttpEnv } from '../http-env.ts';
import { type FieldError, ProblemError } from './problem.ts';

type Issue = z.core.$ZodIssue;
type Path = readonly PropertyKey[];

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

const PLACES: Readonly<Record<string, string>> = { json: 'body', query: 'query', param: 'path', header: 'headers' };

/** @throws ProblemError `invalid_request` that names each wrong field, when the validation failed */
export function refuseInvalid(
  result: Readonly<{ target: string; success: boolean; error?: Readonly<{ issues: readonly Issue[] }> }>,
): void {
  if (result.success || result.error === undefined) return;
  const errors = fieldErrors(result.error);
  const [first] = errors;
  const where = PLACES[result.target] ?? result.target;
  const what = first === undefined ? 'invalid' : `${first.path === '' ? '' : `${first.path}: `}${first.message}`;
  throw new ProblemError('invalid_request', `Invalid ${where}: ${what}`, { errors });
}

const PROTO = '__proto__';

/**
 * Refuses a parameter named `__proto__` on every route: as a field of an object it is lost before a schema sees it.
 * @throws ProblemError `invalid_request`
 */
export const refuseProto: MiddlewareHandler<HttpEnv> = async (c, next) => {
  const { search } = new URL(c.req.url);
  if (search === '' || !new URLSearchParams(search).has(PROTO)) return next();
  const errors = [{ path: PROTO, message: 'unknown parameter' }];
  throw new ProblemError('invalid_request', `Invalid query: ${PROTO}: unknown parameter`, { errors });
};
