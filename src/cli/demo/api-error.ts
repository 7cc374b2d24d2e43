import { z } from 'zod';

const problemSchema = z.object({ code: z.string(), detail: z.string() });

/** The server refused a request; `code` is the stable one of its problem body. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** The error that a response without success stands for. Reads its body. */
export async function toApiError(response: Response): Promise<ApiError> {
  const problem = problemSchema.safeParse(await response.json().catch(() => null));
  if (!problem.success) return new ApiError('unexpected_response', `the server answered with ${response.status}`);
  return new ApiError(problem.data.code, problem.data.detail);
}
