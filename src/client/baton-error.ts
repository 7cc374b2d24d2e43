import type { ErrorCode, Run } from './contract.ts';

/**
 * `unreachable`: no answer, or it broke off. `unexpected_response`: the answer is not from the service.
 * `requires_action`: the run waits for answers to its calls.
 */
export type ClientErrorCode = 'unreachable' | 'unexpected_response' | 'requires_action';

/** One wrong field of a request. `path` is dotted: `limits.maxSteps`. */
export type FieldError = Readonly<{ path: string; message: string }>;

type Details = Readonly<{
  /** Status of the HTTP response; null if there was none. */
  status: number | null;
  errors?: readonly FieldError[];
  /** Wait before the next attempt that the service asks for, in milliseconds. */
  retryAfterMs?: number | null;
  /** Identifies the request in the service's logs. */
  requestId?: string | null;
  /** Run that failed, or that waits for answers. */
  run?: Run | null;
  cause?: unknown;
}>;

/** Any failure of the client except an abort, which rejects with the reason of its signal. Decide by `code`. */
export class BatonError extends Error {
  override readonly name = 'BatonError';
  // A newer service may have codes that this client does not know.
  readonly code: ErrorCode | ClientErrorCode | (string & {});
  readonly status: number | null;
  readonly errors: readonly FieldError[];
  readonly retryAfterMs: number | null;
  readonly requestId: string | null;
  readonly run: Run | null;

  constructor(code: BatonError['code'], message: string, details: Details) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.status = details.status;
    this.errors = details.errors ?? [];
    this.retryAfterMs = details.retryAfterMs ?? null;
    this.requestId = details.requestId ?? null;
    this.run = details.run ?? null;
  }
}

/** The error of a failed response. Reads its body. */
export async function toBatonError(response: Response): Promise<BatonError> {
  const { status, headers } = response;
  const text = await response.text().catch(() => '');
  const details = { status, retryAfterMs: readRetryAfter(headers), requestId: headers.get('x-request-id') };
  const problem = readProblem(text);
  if (problem === null) {
    return new BatonError('unexpected_response', `the server answered ${status} without saying why`, details);
  }
  const { code, detail, errors } = problem;
  // The detail names a single mistake already.
  const unsaid = errors.filter(({ message }) => !detail.includes(message));
  const fields = unsaid.map(({ path, message }) => ` (${path === '' ? message : `${path}: ${message}`})`).join('');
  return new BatonError(code, detail + fields, { ...details, errors });
}

type Problem = Readonly<{ code: string; detail: string; errors: readonly FieldError[] }>;

function readProblem(text: string): Problem | null {
  try {
    const body: unknown = JSON.parse(text);
    if (typeof body !== 'object' || body === null) return null;
    const { code, detail, errors = [] } = body as Partial<Record<string, unknown>>;
    if (typeof code !== 'string' || typeof detail !== 'string' || !Array.isArray(errors)) return null;
    return { code, detail, errors };
  } catch {
    return null;
  }
}

/** Only seconds, as the service sends them. A date, which proxies may send, counts as none. */
function readRetryAfter(headers: Headers): number | null {
  const seconds = Number(headers.get('retry-after') ?? Number.NaN);
  return Number.isFinite(seconds) && seconds >= 0 ? seconds * 1_000 : null;
}
