import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingHook } from '../../agents/incoming-hooks.ts';

/** A timestamp may differ by this from the clock: an older request may be a replay. */
const TOLERANCE_S = 300;

type SignedRequest = Readonly<{ headers: Readonly<Record<string, string>>; bytes: Buffer; nowMs: number }>;

/**
 * The id by which the sender repeats a request, if its signature is right. Null: it is not, or it is too old. Pure.
 */
export function verifiedId(hook: IncomingHook, request: SignedRequest): string | null {
  const { headers, bytes } = request;
  switch (hook.verify) {
    case 'standard':
      return standardId(hook.secret, request);
    case 'github': {
      const given = headers['x-hub-signature-256'] ?? '';
      const isRight = isEqual(given, `sha256=${hmac(hook.secret, bytes).toString('hex')}`);
      return isRight ? (headers['x-github-delivery'] ?? hashOf(bytes)) : null;
    }
    case 'stripe':
      return stripeId(hook.secret, request);
    case 'hmac': {
      const given = headers[hook.signatureHeader ?? ''] ?? '';
      const own = hmac(hook.secret, bytes);
      const isRight = isEqual(given, own.toString('hex')) || isEqual(given, own.toString('base64'));
      return isRight ? (headers[hook.idHeader ?? ''] ?? hashOf(bytes)) : null;
    }
  }
}

function standardId(secret: string, { headers, bytes, nowMs }: SignedRequest): string | null {
  const { 'webhook-id': id = '', 'webhook-timestamp': timestamp = '', 'webhook-signature': given = '' } = headers;
  if (id === '' || !isFresh(timestamp, nowMs)) return null;
  const key = secret.startsWith('whsec_') ? Buffer.from(secret.slice(6), 'base64') : secret;
  const own = `v1,${hmac(key, `${id}.${timestamp}.`, bytes).toString('base64')}`;
  // Several, while the sender changes its secret.
  return given.split(' ').some((signature) => isEqual(signature, own)) ? id : null;
}

function stripeId(secret: string, { headers, bytes, nowMs }: SignedRequest): string | null {
  const fields = (headers['stripe-signature'] ?? '').split(',').map((field) => field.trim().split('='));
  const timestamp = fields.find(([name]) => name === 't')?.[1] ?? '';
  if (!isFresh(timestamp, nowMs)) return null;
  const own = hmac(secret, `${timestamp}.`, bytes).toString('hex');
  const isRight = fields.some(([name, given = '']) => name === 'v1' && isEqual(given, own));
  return isRight ? (/"id"\s*:\s*"(evt_[A-Za-z0-9_]+)"/.exec(bytes.toString('latin1'))?.[1] ?? hashOf(bytes)) : null;
}

const isFresh = (timestamp: string, nowMs: number): boolean =>
  /^\d{1,12}$/.test(timestamp) && Math.abs(nowMs / 1000 - Number(timestamp)) <= TOLERANCE_S;

/** Of the bytes as they came: a text that was decoded from them may be encoded to others. */
const hmac = (key: string | Buffer, ...signed: (string | Buffer)[]): Buffer =>
  signed.reduce((sum, part) => sum.update(part), createHmac('sha256', key)).digest();
const hashOf = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

/** In constant time, which hashes of equal length give. */
const isEqual = (given: string, own: string): boolean =>
  timingSafeEqual(createHash('sha256').update(given).digest(), createHash('sha256').update(own).digest());
