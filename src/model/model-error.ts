import { APICallError, RetryError } from 'ai';
import { BatonError } from '../domain/errors.ts';
import { type ErrorSignals, signalsOf } from '../domain/model/error-signals.ts';
import type { OverflowNumbers } from '../domain/model/overflow-limit.ts';
import type { ProviderErrorClass } from '../domain/model/provider-error-rules.ts';
import { judgeProviderError, providerErrorMessage } from '../domain/model/provider-errors.ts';
import { describeProviderFailure, type FailedCall, providerFailureOf } from '../domain/model/provider-failure.ts';
import type { ResolvedModel } from './model-port.ts';
import type { ModelPrompt } from './model-prompt.ts';

/** A failed model call. `retryAfterMs`: the pause that the provider asked for. */
export type ModelFailure = Readonly<{
  class: ProviderErrorClass;
  error: BatonError;
  retryAfterMs: number | null;
  /** The numbers in the text of an overflow; null: another class, or no numbers. */
  overflow: OverflowNumbers | null;
  /** The provider's words, only for matching. */
  signals: Pick<ErrorSignals, 'status' | 'texts'>;
}>;

/** The facts about a call, for any error that ends it. @param headers of a response that began well */
export function failedCallOf(
  { endpoint, secrets = [] }: ResolvedModel,
  prompt: ModelPrompt,
  headers: FailedCall['headers'],
): FailedCall {
  return { endpoint, secrets, headers, sent: () => sentTexts(prompt) };
}

/** A call of which only the error is known. */
const ANY_CALL: FailedCall = { endpoint: '', headers: null, sent: () => [], secrets: [] };

/**
 * Classifies the error of a model call and keeps the provider's message. The original error is only the cause: it may
 * have the prompt and the key in it, and goes into no row or log.
 */
export function toModelFailure(error: unknown, call: FailedCall = ANY_CALL): ModelFailure {
  const inner = RetryError.isInstance(error) ? error.lastError : error;
  const signals = signalsOf(inner);
  const { class: errorClass, overflow } = isTimeout(inner)
    ? { class: 'timeout' as const, overflow: null }
    : judgeProviderError(signals);
  return {
    class: errorClass,
    error: toBatonError(errorClass, providerErrorMessage(errorClass, signals), inner, call),
    retryAfterMs: pauseOf(inner, signals),
    overflow,
    signals: { status: signals.status, texts: signals.texts },
  };
}

function toBatonError(errorClass: ProviderErrorClass, message: string, cause: unknown, call: FailedCall): BatonError {
  const provider = providerFailureOf(cause, call);
  const words = describeProviderFailure(provider);
  return new BatonError(errorClass, words === '' ? message : `${message} ${words}`, { cause, provider });
}

/** The pause in a header, or the one in the body if that is longer. */
function pauseOf(error: unknown, { pauseMs }: ErrorSignals): number | null {
  const inHeader = APICallError.isInstance(error) ? retryAfterMs(error.responseHeaders ?? {}) : null;
  return inHeader === null || pauseMs === null ? (inHeader ?? pauseMs) : Math.max(inHeader, pauseMs);
}

/** Whether Baton's watchdog ended the call. */
function isTimeout(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'TimeoutError';
}

/** `retry-after-ms`, else `retry-after` in seconds or as an HTTP date (RFC 9110 §10.2.3). */
function retryAfterMs(headers: Readonly<Record<string, string>>): number | null {
  const exactMs = Number(headers['retry-after-ms'] || Number.NaN);
  if (Number.isFinite(exactMs) && exactMs >= 0) return exactMs;
  // Some gateways write the unit, and two headers of the same name arrive joined.
  const value = headers['retry-after']?.match(/^(\d+(?:\.\d+)?)\s*s?(?:\s*,.*)?$/)?.[1] ?? headers['retry-after'] ?? '';
  if (value === '') return null;
  const seconds = Number(value);
  if (Number.isFinite(seconds)) return Math.max(0, seconds * 1_000);
  const at = Date.parse(value);
  return Number.isNaN(at) ? null : Math.max(0, at - Date.now());
}

/** Names and marks of the protocol, which errors may show. */
const NOT_SAID = new Set(['type', 'role', 'toolCallId', 'toolName', 'mediaType', 'approvalId', 'providerOptions']);

/** All texts of a prompt: instructions, messages, inputs and outputs of calls, names of files. */
function* sentTexts({ instructions, messages }: ModelPrompt): Generator<string, void, undefined> {
  yield* textsIn(instructions);
  yield* textsIn(messages);
}

function* textsIn(value: unknown): Generator<string, void, undefined> {
  if (typeof value === 'string') yield value;
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return;
  if (value instanceof URL) {
    yield value.href;
    return;
  }
  for (const [key, inner] of Object.entries(value)) {
    if (NOT_SAID.has(key)) continue;
    // Errors quote the arguments of a call as a whole.
    if (key === 'input') yield JSON.stringify(inner) ?? '';
    yield* textsIn(inner);
  }
}
