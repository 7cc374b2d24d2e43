import { z } from 'zod';

const count = z.number().int().min(0);

/**
 * The fault of one request. `afterChunks` counts content chunks; a shorter reply fails before its closing event.
 * - `stall`: sends no more until the client disconnects
 * - `cut`: destroys the socket
 */
export const faultSchema = z.union([
  z.strictObject({
    status: z.number().int().min(400).max(599),
    body: z.unknown().optional(),
    headers: z.record(z.string(), z.string()).optional(),
  }),
  z.strictObject({ kind: z.literal('rate-limit'), retryAfterMs: count.optional() }),
  z.strictObject({ kind: z.literal('server-error') }),
  z.strictObject({ kind: z.literal('overloaded'), retryAfterMs: count.optional() }),
  z.strictObject({ kind: z.literal('delay'), delayMs: count }),
  z.strictObject({ kind: z.literal('stall'), afterChunks: count }),
  z.strictObject({ kind: z.literal('cut'), afterChunks: count }),
  z.strictObject({
    kind: z.literal('error-in-stream'),
    afterChunks: count,
    code: z.string(),
    message: z.string(),
    /** Responses protocol only: sent as an `error` event (default) or as `response.failed`. */
    event: z.enum(['error', 'response.failed']).optional(),
  }),
  z.strictObject({ kind: z.literal('context-overflow') }),
]);

export type Fault = z.infer<typeof faultSchema>;

export type StreamFault = Extract<Fault, { kind: 'stall' | 'cut' | 'error-in-stream' }>;

/** An HTTP refusal: status, headers and an OpenAI error body. */
export type Refusal = Readonly<{ status: number; headers: Readonly<Record<string, string>>; body: unknown }>;

export function errorBody(message: string, type: string, code: string | null = null, param: string | null = null) {
  return { error: { message, type, param, code } };
}

/** The HTTP refusal of a fault that strikes before the reply. Undefined: another kind of fault. */
export function refusalOf(fault: Fault): Refusal | undefined {
  if ('status' in fault) {
    const body = fault.body ?? errorBody(`Simulated status ${fault.status}.`, 'server_error');
    return { status: fault.status, headers: fault.headers ?? {}, body };
  }
  switch (fault.kind) {
    case 'rate-limit':
      return {
        status: 429,
        headers: retryHeaders(fault.retryAfterMs),
        body: errorBody('Rate limit reached. Please try again later.', 'requests', 'rate_limit_exceeded'),
      };
    case 'server-error':
      return {
        status: 500,
        headers: {},
        body: errorBody('The server had an error while processing your request. Sorry about that!', 'server_error'),
      };
    case 'overloaded':
      return {
        status: 503,
        headers: retryHeaders(fault.retryAfterMs),
        body: errorBody('The engine is currently overloaded, please try again later', 'service_unavailable'),
      };
    default:
      return undefined;
  }
}

function retryHeaders(retryAfterMs: number | undefined): Record<string, string> {
  if (retryAfterMs === undefined) return {};
  return { 'retry-after-ms': String(retryAfterMs), 'retry-after': String(Math.ceil(retryAfterMs / 1000)) };
}
