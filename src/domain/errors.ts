import { z } from 'zod';

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
  'inbox_full',
  'input_overflow',
  'internal',
  'invalid_request',
  'limit_exceeded',
  'malformed_history',
  'model_not_allowed',
  'model_unavailable',
  'not_found',
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
  'timeout',
  'tools_unavailable',
  'tools_unsupported',
  'transport',
] as const;

export type ErrorCode = (typeof ERROR_CODES)[number];

/** What a provider answered to a model call that failed, without credentials and without the prompt. */
export const providerFailureSchema = z.strictObject({
  /** Of the HTTP response; 200 where the answer broke off or was refused in its middle. */
  status: z.number().int().optional(),
  /** The provider's own code, or else its type of error. */
  code: z.string().optional(),
  /** At most 1 000 characters. */
  message: z.string().optional(),
  /** Names the request to the provider's support. */
  requestId: z.string().optional(),
  /** Of the endpoint, with its port. */
  host: z.string().optional(),
  /** Why there was no response at all: `ECONNREFUSED`, `ENOTFOUND`. */
  errno: z.string().optional(),
});
export type ProviderFailure = Readonly<z.infer<typeof providerFailureSchema>>;

export const errorRecordSchema = z.strictObject({
  code: z.enum(ERROR_CODES),
  message: z.string(),
  /** Where a model call failed: the fields that `message` tells in words. */
  provider: providerFailureSchema.optional(),
});

/** An error as rows, events and responses carry it: never a stack, never what a provider was sent. */
export type ErrorRecord = Readonly<z.infer<typeof errorRecordSchema>>;

type Details = ErrorOptions & Readonly<{ provider?: ProviderFailure; field?: string }>;

/** An expected failure: a stable code, a message that may be shown to the caller, and what caused it. */
export class BatonError extends Error {
  override readonly name = 'BatonError';
  readonly code: ErrorCode;
  readonly provider: ProviderFailure | undefined;
  /** The field of a request that is wrong, dotted, where it is one: the message begins with it and a colon. */
  readonly field: string | undefined;

  constructor(code: ErrorCode, message: string, { provider, field, ...options }: Details = {}) {
    super(field === undefined ? message : `${field}: ${message}`, options);
    this.code = code;
    this.provider = provider;
    this.field = field;
  }
}

/** An error that came of another one: what the provider said stays with it. */
export function withProvider(error: ErrorRecord, { provider }: Pick<ErrorRecord, 'provider'>): ErrorRecord {
  return provider === undefined ? error : { ...error, provider };
}

/**
 * The part of an error that may be stored and shown. Anything that is not a BatonError is `internal` without details.
 */
export function toErrorRecord(error: unknown): ErrorRecord {
  if (error instanceof BatonError) {
    const { code, message, provider } = error;
    return { code, message, ...(provider !== undefined && { provider }) };
  }
  return { code: 'internal', message: 'An unexpected error; the log of the worker names it.' };
}
