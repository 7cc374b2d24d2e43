import { adviceForAbsent } from './absent-openai-routes.ts';

export type OpenAiError = Readonly<{ message: string; type: string; code: string; param: string | null }>;

/** What was not found, by the field that names it. */
const NOT_FOUND: Readonly<Record<string, string>> = {
  model: 'model_not_found',
  previous_response_id: 'previous_response_not_found',
};

/** OpenAI's names for our codes. Other codes stay as they are. */
const NAMES: Readonly<Record<string, Readonly<{ code: string; type: string }>>> = {
  unauthenticated: { code: 'invalid_api_key', type: 'authentication_error' },
  forbidden: { code: 'insufficient_permissions', type: 'permission_error' },
  rate_limited: { code: 'rate_limit_exceeded', type: 'rate_limit_error' },
  inbox_full: { code: 'rate_limit_exceeded', type: 'rate_limit_error' },
  quota_exceeded: { code: 'insufficient_quota', type: 'insufficient_quota' },
  storage_exceeded: { code: 'insufficient_quota', type: 'insufficient_quota' },
  context_exhausted: { code: 'context_length_exceeded', type: 'invalid_request_error' },
  input_overflow: { code: 'context_length_exceeded', type: 'invalid_request_error' },
};

/** @param status HTTP status of the response; in mid-stream the status that it would have had */
export function toOpenAiError(
  { code, message, param = null }: Readonly<{ code: string; message: string; param?: string | null }>,
  status: number,
): OpenAiError {
  const missing =
    code === 'not_found' && param !== null && Object.hasOwn(NOT_FOUND, param) ? NOT_FOUND[param] : undefined;
  if (missing !== undefined) return { message, code: missing, type: 'invalid_request_error', param };
  const fallback = { code, type: status >= 500 ? 'server_error' : 'invalid_request_error' };
  return { message, ...(NAMES[code] ?? fallback), param };
}

/** Paths whose clients read errors in this shape. */
export const isOpenAiPath = (path: string): boolean =>
  /^\/v1\/(chat\/completions|models|responses)(\/|$)/.test(path) || adviceForAbsent(path) !== null;
