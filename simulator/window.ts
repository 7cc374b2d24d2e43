import { z } from 'zod';
import { errorBody, type Refusal } from './fault.ts';
import type { Protocol } from './request.ts';

const positive = z.number().int().positive();

export const modelWindowSchema = z.strictObject({
  /** Input and, in the chat and Messages protocols, requested output together. */
  tokens: positive.optional(),
  /** Largest request body. Default: none, but 32 MB in the Messages protocol. */
  maxBytes: positive.optional(),
  /** `truncate`: answers 200 to a cut prompt, as Ollama does; only the billed tokens show it. Default: refuse. */
  overflow: z.enum(['refuse', 'truncate']).optional(),
});
export type ModelWindow = z.infer<typeof modelWindowSchema>;

/** Real tokens per counted token: the same for every request, or drifting over the requests of a session. */
export type TokenFactor = number | Readonly<{ from: number; to: number; calls: number }>;

/** The factor of a request: from `from` to `to` in equal steps over `calls` requests, and `to` from then on. */
export function factorAt(factor: TokenFactor, index: number): number {
  if (typeof factor === 'number') return factor;
  return factor.from + (factor.to - factor.from) * Math.min(1, index / Math.max(1, factor.calls));
}

/** The size of a request. Tokens are real ones, with the factor. */
export type RequestSize = Readonly<{
  protocol: Protocol;
  promptTokens: number;
  toolTokens: number;
  maxOutputTokens: number | undefined;
  bytes: number;
}>;

export type SizeVerdict =
  | Readonly<{ kind: 'fits' }>
  | Readonly<{ kind: 'refused'; reason: 'window' | 'bytes'; refusal: Refusal }>
  /** The provider answers after reading only this many tokens. */
  | Readonly<{ kind: 'truncated'; tokens: number }>;

/** Judges a request by the model's window. Bytes come first: a provider counts them before it parses the body. */
export function judgeSize(size: RequestSize, window: ModelWindow): SizeVerdict {
  const maxBytes = window.maxBytes ?? (size.protocol === 'messages' ? MESSAGES_MAX_BYTES : undefined);
  if (maxBytes !== undefined && size.bytes > maxBytes) {
    return { kind: 'refused', reason: 'bytes', refusal: bytesRefusal(size.protocol, maxBytes) };
  }
  if (window.tokens === undefined) return { kind: 'fits' };
  if (window.overflow === 'truncate') {
    if (size.promptTokens <= window.tokens) return { kind: 'fits' };
    return { kind: 'truncated', tokens: Math.floor(window.tokens / 2) + 2 };
  }
  const refusal = windowRefusal(size, window.tokens);
  return refusal === undefined ? { kind: 'fits' } : { kind: 'refused', reason: 'window', refusal };
}

const MESSAGES_MAX_BYTES = 32 * 1024 * 1024;

function bytesRefusal(protocol: Protocol, maxBytes: number): Refusal {
  const text =
    protocol === 'messages'
      ? 'Request exceeds the maximum size'
      : `Request too large. The maximum request size is ${maxBytes} bytes.`;
  return { status: 413, headers: {}, body: errorBody(text, 'invalid_request_error', 'request_too_large') };
}

function windowRefusal(size: RequestSize, window: number): Refusal | undefined {
  if (size.promptTokens > window) return { status: 400, headers: {}, body: inputOverflowBody(size, window) };
  if (size.protocol === 'responses' || size.maxOutputTokens === undefined) return undefined;
  const requested = size.promptTokens + size.maxOutputTokens;
  if (requested <= window) return undefined;
  if (size.protocol === 'messages') {
    const text = `input length and \`max_tokens\` exceed context limit: ${size.promptTokens} + ${size.maxOutputTokens} > ${window}, decrease input length or \`max_tokens\` and try again`;
    return { status: 400, headers: {}, body: errorBody(text, 'invalid_request_error') };
  }
  const text = `This model's maximum context length is ${window} tokens. However, you requested ${requested} tokens (${size.promptTokens} in the messages, ${size.maxOutputTokens} in the completion). Please reduce the length of the messages or completion.`;
  const body = errorBody(text, 'invalid_request_error', 'context_length_exceeded', 'messages');
  return { status: 400, headers: {}, body };
}

/** The providers' overflow errors: all but the Responses protocol give the numbers. */
export function inputOverflowBody({ protocol, promptTokens, toolTokens }: RequestSize, window: number) {
  if (protocol === 'responses') {
    const text = 'Your input exceeds the context window of this model. Please adjust your input and try again.';
    return errorBody(text, 'invalid_request_error', 'context_length_exceeded', 'input');
  }
  if (protocol === 'messages') {
    return errorBody(`prompt is too long: ${promptTokens} tokens > ${window} maximum`, 'invalid_request_error');
  }
  const split = toolTokens > 0 ? ` (${promptTokens - toolTokens} in the messages, ${toolTokens} in the functions)` : '';
  const text = `This model's maximum context length is ${window} tokens. However, your messages resulted in ${promptTokens} tokens${split}. Please reduce the length of the messages.`;
  return errorBody(text, 'invalid_request_error', 'context_length_exceeded', 'messages');
}
