import type { ContentfulStatusCode } from 'hono/utils/http-status';
import type { ErrorCode } from '../domain/errors.ts';

/** Codes that only HTTP has. The others come from the domain. */
type HttpOnlyCode =
  | 'forbidden'
  | 'method_not_allowed'
  | 'not_acceptable'
  | 'unauthenticated'
  | 'unsupported_media_type';

export type ProblemCode = ErrorCode | HttpOnlyCode;

type Kind = Readonly<{ status: ContentfulStatusCode; title: string }>;

/** Status and title of each code. A code without an entry does not compile. */
export const PROBLEM_KINDS: Readonly<Record<ProblemCode, Kind>> = {
  agent_not_found: { status: 422, title: 'Unknown agent' },
  already_answered: { status: 409, title: 'Answered already' },
  auth: { status: 502, title: 'The model provider refused the credentials' },
  blocked_transition: { status: 409, title: 'Not possible in the present state' },
  byte_overflow: { status: 422, title: 'Too many bytes for the model provider' },
  config_invalid: { status: 500, title: 'Invalid configuration' },
  conflict: { status: 409, title: 'Conflict' },
  content_policy: { status: 422, title: 'Refused by a content policy' },
  context_exhausted: { status: 422, title: 'No room left in the context' },
  fenced: { status: 409, title: 'Another worker owns the run' },
  forbidden: { status: 403, title: 'Forbidden' },
  idempotency_conflict: { status: 409, title: 'The key was used for another request' },
  inbox_full: { status: 429, title: 'Too much waits in the session' },
  input_overflow: { status: 422, title: 'Too long for the model' },
  intake_full: { status: 503, title: 'Too much arrives at the same time' },
  internal: { status: 500, title: 'Internal error' },
  invalid_request: { status: 400, title: 'Invalid request' },
  limit_exceeded: { status: 429, title: 'Limit exceeded' },
  malformed_history: { status: 500, title: 'Malformed history' },
  method_not_allowed: { status: 405, title: 'Method not allowed' },
  model_not_allowed: { status: 400, title: 'Not one of the models of the agent' },
  model_unavailable: { status: 503, title: 'Model unavailable' },
  not_acceptable: { status: 406, title: 'Not acceptable' },
  not_found: { status: 404, title: 'Not found' },
  output_invalid: { status: 422, title: 'The answer does not fit its schema' },
  output_reserve_overflow: { status: 422, title: 'Too much room asked for the answer' },
  overloaded: { status: 503, title: 'Overloaded' },
  payload_too_large: { status: 413, title: 'Payload too large' },
  price_unknown: { status: 400, title: 'No price to keep a limit of cost by' },
  quota: { status: 429, title: 'Quota used up' },
  quota_exceeded: { status: 429, title: 'Quota of the tenant used up' },
  rate_limited: { status: 429, title: 'Too many requests' },
  resume_limit: { status: 500, title: 'Gave up after repeated crashes' },
  session_busy: { status: 409, title: 'Session busy' },
  silent_truncation: { status: 502, title: 'The model provider cut the request' },
  storage_exceeded: { status: 429, title: 'Storage of the tenant used up' },
  store_unavailable: { status: 503, title: 'Store unavailable' },
  summary_invalid: { status: 502, title: 'The summary of a compaction cannot be used' },
  timeout: { status: 504, title: 'Timeout' },
  tools_unavailable: { status: 503, title: 'A server of tools is unavailable' },
  tools_unsupported: { status: 422, title: 'The model takes no tools' },
  transport: { status: 502, title: 'Connection to the model provider failed' },
  unauthenticated: { status: 401, title: 'No valid API key, token or signature' },
  unsupported_media_type: { status: 415, title: 'Unsupported media type' },
};
