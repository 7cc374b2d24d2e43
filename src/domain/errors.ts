import { z } from 'zod';

/** The codes of all errors that leave Baton: in HTTP problems, run rows and events. */
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
  'inbox_full',
  'input_overflow',
  'intake_full',
  'internal',
  'invalid_request',
  'limit_exceeded',
  'malformed_history',
  'model_not_allowed',
  'model_unavailable',
  'not_found',
  'output_invalid',
  'output_reserve_overflow',
  'overloaded',
  'payload_too_large',
  'price_unknown',
  'quota',
  'quota_exceeded',
  'rate_limited',
  'resume_limit',
  'session_busy',
  'silent_truncation',
  'storage_exceeded',
  'store_unavailable',
  'summary_invalid',
  'timeout',
  'tools_unavailable',
  'tools_unsupported',
  'transport',
] as const;

export type ErrorCode = (typeof ERROR_CODES)[number];

/** A provider's answer to a failed model call, without credentials and without the prompt. */
export const providerFailureSchema = z.strictObject({
  /** The HTTP status; 200 if the answer broke off or was refused in its middle. */
  status: z.number().int().optional(),
  /** The provider's error code, else its type of error. */
  code: z.string().optional(),
  /** At most 1 000 characters. */
  message: z.string().optional(),
  /** The id of the request for the provider's support. */
  requestId: z.string().optional(),
  /** The host of the endpoint, with its port. */
  host: z.string().optional(),
  /** Why there was no response: `ECONNREFUSED`, `ENOTFOUND`. */
  errno: z.string().optional(),
});
export type ProviderFailure = Readonly<z.infer<typeof providerFailureSchema>>;

export const errorRecordSchema = z.strictObject({
  code: z.enum(ERROR_CODES),
  message: z.string(),
  /** Set if a model call failed: the fields behind `message`. */
  provider: providerFailureSchema.optional(),
});

/** An error in rows, events and responses. It never has a stack or the request to a provider. */
export type ErrorRecord = Readonly<z.infer<typeof errorRecordSchema>>;

type Details = ErrorOptions & Readonly<{ provider?: ProviderFailure; field?: string }>;

/** An expected failure: a stable code, and a message that callers may see. */
export class BatonError extends Error {
  override readonly name = 'BatonError';
  readonly code: ErrorCode;
  readonly provider: ProviderFailure | undefined;
  /** The dotted name of the invalid field of a request. The message begins with it and a colon. */
  readonly field: string | undefined;

  constructor(code: ErrorCode, message: string, { provider, field, ...options }: Details = {}) {
    super(field === undefined ? message : `${field}: ${message}`, options);
    this.code = code;
    this.provider = provider;
    this.field = field;
  }
}

/** Keeps the provider's details of the error that caused this one. */
export function withProvider(error: ErrorRecord, { provider }: Pick<ErrorRecord, 'provider'>): ErrorRecord {
  return provider === undefined ? error : { ...error, provider };
}

/** The part of an error that may be stored and shown. Any but a BatonError is `internal` without details. */
export function toErrorRecord(error: unknown): ErrorRecord {
  if (error instanceof BatonError) {
    const { code, message, provider } = error;
    return { code, message, ...(provider !== undefined && { provider }) };
  }
  return { code: 'internal', message: 'An unexpected error; the log of the worker names it.' };
}
