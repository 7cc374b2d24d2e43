/** Events that a webhook may ask for: a run of it has ended, or waits for a person or a client. */
export const WEBHOOK_EVENTS = [
  'run:completed',
  'run:failed',
  'run:cancelled',
  'run:incomplete',
  'run:requires-action',
] as const;
export type WebhookEvent = (typeof WEBHOOK_EVENTS)[number];

/** The type of a delivery that a caller asked for to try its receiver. */
export const TEST_EVENT = 'webhook:test';

/** Why nothing is sent to a webhook. `gone`: its receiver answered 410. `failing`: it failed for three days.
 * `undeclared`: its declaration has gone. */
export const DISABLED_REASONS = ['request', 'gone', 'failing', 'undeclared'] as const;
export type DisabledReason = (typeof DISABLED_REASONS)[number];

/** `waiting`: until its next attempt. `sending`: it is in the queue, or a worker sends it. `failed`: given up. */
export const DELIVERY_STATES = ['waiting', 'sending', 'delivered', 'failed'] as const;
export type DeliveryState = (typeof DELIVERY_STATES)[number];

export const MAX_WEBHOOKS_PER_TENANT = 50;
export const MAX_WEBHOOK_URL_CHARS = 2_048;

/** Of the secret that signs deliveries. Standard Webhooks asks for 24 to 64 bytes. */
export const MIN_SECRET_BYTES = 24;
export const MAX_SECRET_BYTES = 64;

const PREFIX = 'whsec_';

/**
 * The words for what is wrong with a secret; null: nothing. It is `whsec_` and Base64, or any visible ASCII, of
 * `MIN_SECRET_BYTES` to `MAX_SECRET_BYTES`. Pure.
 */
export function secretProblem(secret: string): string | null {
  const bytes = secretBytes(secret);
  if (bytes === null) return `after ${PREFIX} comes Base64`;
  if (bytes >= MIN_SECRET_BYTES && bytes <= MAX_SECRET_BYTES) return null;
  const size = bytes < MIN_SECRET_BYTES ? 'short' : 'long';
  return `too ${size}: ${MIN_SECRET_BYTES} to ${MAX_SECRET_BYTES} bytes, after ${PREFIX} as Base64`;
}

/** Null: not decodable. */
function secretBytes(secret: string): number | null {
  if (!secret.startsWith(PREFIX)) return secret.length;
  const encoded = secret.slice(PREFIX.length);
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(encoded)) return null;
  return Math.floor((encoded.replace(/=+$/, '').length * 3) / 4);
}
