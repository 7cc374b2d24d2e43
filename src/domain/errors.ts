/** Every error that leaves Baton has one of these codes: in HTTP problems, in run rows, in events. */
export const ERROR_CODES = [
  'agent_not_found',
  'already_answered',
  'auth',
  'blocked_transition',
  'byte_overflow',
  'config_invalid',
  'conflict',
  'content_policy',
  'context_exhausted',
  'fenced',
  'idempotency_conflict',
  'input_overflow',
  'internal',
  'invalid_request',
  'limit_exceeded',
  'malformed_history',
  'model_unavailable',
  'not_found',
  'output_reserve_overflow',
  'overloaded',
  'payload_too_large',
  'quota',
  'quota_exceeded',
  'rate_limited',
  'resume_limit',
  'session_busy',
  'session_closed',
  'silent_truncation',
  'store_unavailable',
  'timeout',
  'tools_unavailable',
  'transport',
] as const;

export type ErrorCode = (typeof ERROR_CODES)[number];

/** An expected failure: a stable code, a message that may be shown to the caller, and what caused it. */
export class BatonError extends Error {
  override readonly name = 'BatonError';
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** An error as rows, events and responses carry it: never a stack, never what a provider was sent. */
export type ErrorRecord = Readonly<{ code: ErrorCode; message: string }>;

/**
 * The part of an error that may be stored and shown. Anything that is not a BatonError is `internal` without details.
 */
export function toErrorRecord(error: unknown): ErrorRecord {
  if (error instanceof BatonError) return { code: error.code, message: error.message };
  return { code: 'internal', message: 'An unexpected error; the log of the worker names it.' };
}
