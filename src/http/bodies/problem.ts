import { PROBLEM_KINDS, type ProblemCode } from '../../api/problems.ts';
import type { FieldError } from '../../domain/field-errors.ts';
import { isOpenAiPath, toOpenAiError } from '../openai-error.ts';

type ProblemOptions = Readonly<{
  errors?: readonly FieldError[];
  headers?: Readonly<Record<string, string>>;
  cause?: unknown;
}>;

/** A refused request. Thrown anywhere below a route, it becomes the response. */
export class ProblemError extends Error {
  override readonly name = 'ProblemError';
  readonly code: ProblemCode;
  readonly errors: readonly FieldError[];
  readonly headers: Readonly<Record<string, string>>;

  constructor(code: ProblemCode, detail: string, options: ProblemOptions = {}) {
    super(detail, { cause: options.cause });
    this.code = code;
    this.errors = options.errors ?? [];
    this.headers = options.headers ?? {};
  }
}

/**
 * The body of RFC 9457 for a problem, as JSON.
 * @param instance the path of the request; on OpenAI's paths the body also holds OpenAI's form of the error
 */
export function problemBody(problem: ProblemError, instance: string): string {
  const { status, title } = PROBLEM_KINDS[problem.code];
  const param = problem.errors[0]?.path ?? null;
  return JSON.stringify({
    type: `/docs#${problem.code}`,
    title,
    status,
    code: problem.code,
    detail: problem.message,
    ...(problem.errors.length === 0 ? {} : { errors: problem.errors }),
    instance,
    ...(isOpenAiPath(instance) && {
      error: toOpenAiError({ code: problem.code, message: problem.message, param }, status),
    }),
  });
}

/** The response of RFC 9457 for a problem. @param instance see `problemBody` */
export function problemResponse(problem: ProblemError, instance: string): Response {
  return new Response(problemBody(problem, instance), {
    status: PROBLEM_KINDS[problem.code].status,
    headers: { ...problem.headers, 'content-type': 'application/problem+json' },
  });
}
