import { createHmac } from 'node:crypto';

/** Secrets with this prefix are the key in Base64. */
const PREFIX = 'whsec_';

/**
 * Headers that prove a request to be Baton's and fresh, after https://www.standardwebhooks.com: HMAC-SHA256 of
 * `id.timestamp.body`. Pure.
 * @param secret `whsec_` and Base64, or any text
 */
export function signRequest(secret: string, id: string, nowMs: number, body: string): Record<string, string> {
  const key = secret.startsWith(PREFIX) ? Buffer.from(secret.slice(PREFIX.length), 'base64') : Buffer.from(secret);
  const timestampSeconds = String(Math.floor(nowMs / 1_000));
  const signature = createHmac('sha256', key).update(`${id}.${timestampSeconds}.${body}`).digest('base64');
  return { 'webhook-id': id, 'webhook-timestamp': timestampSeconds, 'webhook-signature': `v1,${signature}` };
}
