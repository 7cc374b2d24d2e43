import type { SwitchReason } from '../run/run.ts';
import type { ProviderErrorClass } from './provider-error-rules.ts';

/**
 * When a run goes on with the next model: at this failed attempt of a step. A model is asked once more after a failure
 * that passes in a moment, because the next one has none of the prompt in its cache. Any other class stays with the model:
 * another one would be refused the same (400, 413, 422), or a person has to see it (401, 403, 404).
 */
const SWITCH_AT: Readonly<Partial<Record<ProviderErrorClass, number>>> = {
  timeout: 1,
  quota: 1,
  overloaded: 2,
  transport: 2,
  rate_limited: 2,
};

/** A provider that asks for a longer wait is left at once. */
export const MAX_PROVIDER_WAIT_MS = 10_000;

/**
 * Why the run should go on with the next model. Null: it stays.
 * @param attempt the failed attempt with this model, from 1
 */
export function switchReason(
  errorClass: ProviderErrorClass,
  attempt: number,
  retryAfterMs: number | null,
): SwitchReason | null {
  const at = SWITCH_AT[errorClass];
  if (at === undefined) return null;
  const isLongWait = errorClass === 'rate_limited' && (retryAfterMs ?? 0) > MAX_PROVIDER_WAIT_MS;
  return isLongWait || attempt >= at ? (errorClass as SwitchReason) : null;
}

/** Attempts at a step that may have been made with earlier models. */
export const attemptsBefore = (modelPosition: number): number => 2 * modelPosition;
