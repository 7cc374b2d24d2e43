import { z } from 'zod';
import type { Refusal } from './fault.ts';
import type { Protocol } from './request.ts';

const OVERLOADED = 529;

const MESSAGES_TYPES: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  [OVERLOADED]: 'overloaded_error',
};

const openaiError = z.strictObject({ error: z.looseObject({ message: z.string() }) });

/** A refusal in the form of the protocol: OpenAI's errors become those of the Messages API; any other body stays. */
export function inProtocol(protocol: Protocol, refusal: Refusal): Refusal {
  const parsed = openaiError.safeParse(refusal.body);
  if (protocol !== 'messages' || !parsed.success) return refusal;
  const status = refusal.status === 503 ? OVERLOADED : refusal.status;
  return {
    status,
    headers: refusal.headers,
    body: messagesError(MESSAGES_TYPES[status] ?? 'api_error', parsed.data.error.message),
  };
}

export function messagesError(type: string, message: string) {
  return { type: 'error', error: { type, message } };
}
