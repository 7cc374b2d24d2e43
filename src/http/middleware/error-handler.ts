import type { Context } from 'hono';
import { HTTPException } from 'hono/http-exception';
import { PROBLEM_KINDS } from '../../api/problems.ts';
import { BatonError } from '../../domain/errors.ts';
import type { FieldError } from '../../domain/field-errors.ts';
import { type Log, toSafeError } from '../../platform/log.ts';
import { ProblemError, problemResponse } from '../bodies/problem.ts';
import type { HttpEnv } from '../http-env.ts';
import { toStoreProblem } from '../store-failure.ts';
import { StalledBody } from './bounded-body.ts';

/** Turns any error of a route into a problem. An unexpected error is logged, and its answer gives no details. */
export function createErrorHandler(log: Log): (error: unknown, c: Context<HttpEnv>) => Promise<Response> {
  return async (error, c) => {
    const problem = error instanceof HTTPException ? await fromHttpException(error, c) : toProblem(error);
    const { status } = PROBLEM_KINDS[problem.code];
    if (problem.code === 'intake_full') {
      log('warn', { event: 'http_dropped', reason: error instanceof StalledBody ? 'body_stalled' : 'intake_full' });
    } else if (status >= 500) {
      const request = { status, method: c.req.method, path: c.req.path, requestId: c.get('requestId') };
      log('error', { event: 'http_request_failed', ...request, error: toSafeError(error) });
    }
    return problemResponse(problem, c.req.path);
  };
}

function toProblem(error: unknown): ProblemError {
  if (error instanceof ProblemError) return error;
  if (error instanceof BatonError && error.code !== 'store_unavailable') {
    return new ProblemError(error.code, error.message, { errors: fieldErrors(error), cause: error });
  }
  if (isTooMuchForEngine(error)) {
    return new ProblemError('payload_too_large', 'The request is too much to be worked on at once: send less', {
      cause: error,
    });
  }
  return toStoreProblem(error) ?? new ProblemError('internal', 'An unexpected error; the log of the server names it');
}

/** V8 gives up on values that are nested too deeply or too long. Other range errors are defects. */
function isTooMuchForEngine(error: unknown): boolean {
  return (
    error instanceof RangeError &&
    /^(Maximum call stack size exceeded|Invalid (string|array) length)/.test(error.message)
  );
}

function fieldErrors({ code, message, field }: BatonError): FieldError[] {
  if (code === 'agent_not_found') return [{ path: 'agent', message }];
  return field === undefined ? [] : [{ path: field, message: message.slice(`${field}: `.length) }];
}

/** Hono's validators throw these. */
async function fromHttpException(error: HTTPException, c: Context<HttpEnv>): Promise<ProblemError> {
  if (error.status === 415) {
    return new ProblemError('unsupported_media_type', 'The body must be application/json', { cause: error });
  }
  if (error.status === 400) {
    const why = whyNoJson(await c.req.text());
    return new ProblemError('invalid_request', `The body is not valid JSON${why}`, { cause: error });
  }
  return new ProblemError('internal', 'An unexpected error; the log of the server names it', { cause: error });
}

/** A longer body comes from a program that generates JSON, and explaining it would parse it once more. */
const LONGEST_EXPLAINED_CHARS = 65_536;
const MAX_REASON_CHARS = 200;

/** The parser's message: the mistake and its position. */
function whyNoJson(body: string): string {
  if (body.length > LONGEST_EXPLAINED_CHARS) return '';
  try {
    JSON.parse(body);
    return '';
  } catch (error) {
    return error instanceof SyntaxError ? `: ${error.message.slice(0, MAX_REASON_CHARS).toWellFormed()}` : '';
  }
}
