import type { MiddlewareHandler } from 'hono';
import type { z } from 'zod';
import { fieldErrors } from '../../domain/field-errors.ts';
import type { HttpEnv } from '../http-env.ts';
import { ProblemError } from './problem.ts';

type Issue = z.core.$ZodIssue;
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
