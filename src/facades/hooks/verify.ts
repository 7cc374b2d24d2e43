import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingHook } from '../../agents/incoming-hooks.ts';
import { secretProblem } from '../../domain/webhooks/webhook.ts';

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
      const signature = headers['x-hub-signature-256'] ?? '';
      return isSigned(signature, hmac(hook.secret, bytes)) ? (headers['x-github-delivery'] ?? hashOf(bytes)) : null;
    }
    case 'stripe':
      return stripeId(hook.secret, request);
    case 'hmac': {
      const signature = headers[hook.signatureHeader ?? ''] ?? '';
      return isSigned(signature, hmac(hook.secret, bytes)) ? (headers[hook.idHeader ?? ''] ?? hashOf(bytes)) : null;
    }
  }
}

/** The header in which the sender of a hook signs. */
export function signatureHeaderOf({ verify, signatureHeader }: IncomingHook): string {
  switch (verify) {
    case 'standard':
      return 'webhook-signature';
    case 'github':
      return 'x-hub-signature-256';
    case 'stripe':
      return 'stripe-signature';
    case 'hmac':
      return signatureHeader ?? '';
  }
}

/** Names of the headers of Standard Webhooks, and those that Svix, which the standard comes from, sends instead. */
const STANDARD_PREFIXES = ['webhook', 'svix'] as const;

function standardId(secret: string, request: SignedRequest): string | null {
  const ids = STANDARD_PREFIXES.map((prefix) => idUnder(prefix, secret, request));
  return ids.find((id) => id !== null) ?? null;
}

function idUnder(prefix: string, secret: string, { headers, bytes, nowMs }: SignedRequest): string | null {
  const [id = '', timestamp = '', signature = ''] = ['id', 'timestamp', 'signature'].map(
    (field) => headers[`${prefix}-${field}`],
  );
  if (id === '' || !isFresh(timestamp, nowMs)) return null;
  const own = keysOf(secret).map((key) => `v1,${hmac(key, `${id}.${timestamp}.`, bytes).toString('base64')}`);
  // Several, while the sender changes its secret.
  return signature.split(' ').some((each) => own.some((right) => isEqual(each, right))) ? id : null;
}

const KEY_PREFIX = 'whsec_';

/** Most libraries take a secret without the prefix for Base64, some for the key itself. */
function keysOf(secret: string): readonly (string | Buffer)[] {
  if (secret.startsWith(KEY_PREFIX)) return [Buffer.from(secret.slice(KEY_PREFIX.length), 'base64')];
  return secretProblem(`${KEY_PREFIX}${secret}`) === null ? [secret, Buffer.from(secret, 'base64')] : [secret];
}

/** Names that senders put before the sum. Another name stands for another way to sign, whatever its sum is. */
const SUM_NAME = /^(?:(?:hmac[-_]?)?sha-?256|v1|signature)=/i;

/**
 * Whether a header has the sum of the body: alone, or with names, several of them while the sender changes its secret.
 */
function isSigned(header: string, own: Buffer): boolean {
  const signatures = header.split(/[\s,]+/).filter((signature) => signature !== '');
  const isAlone = signatures.length === 1;
  return signatures.some((signature) => {
    const sum = signature.replace(SUM_NAME, '');
    return (isAlone || sum !== signature) && isSum(sum, own);
  });
}

function isSum(signature: string, own: Buffer): boolean {
  const isHex = /^[0-9a-f]{64}$/i.test(signature);
  if (!isHex && !/^[A-Za-z0-9+/_-]{43}=?$/.test(signature)) return false;
  return timingSafeEqual(Buffer.from(signature, isHex ? 'hex' : 'base64'), own);
}

function stripeId(secret: string, { headers, bytes, nowMs }: SignedRequest): string | null {
  const fields = (headers['stripe-signature'] ?? '').split(',').map((field) => field.trim().split('='));
  const timestamp = fields.find(([name]) => name === 't')?.[1] ?? '';
  if (!isFresh(timestamp, nowMs)) return null;
  const own = hmac(secret, `${timestamp}.`, bytes).toString('hex');
  const isRight = fields.some(([name, signature = '']) => name === 'v1' && isEqual(signature, own));
  return isRight ? (/"id"\s*:\s*"(evt_[A-Za-z0-9_]+)"/.exec(bytes.toString('latin1'))?.[1] ?? hashOf(bytes)) : null;
}

const isFresh = (timestamp: string, nowMs: number): boolean =>
  /^\d{1,12}$/.test(timestamp) && Math.abs(nowMs / 1000 - Number(timestamp)) <= TOLERANCE_S;

/** Of the bytes as they came: a text that was decoded from them may be encoded to others. */
const hmac = (key: string | Buffer, ...signed: (string | Buffer)[]): Buffer =>
  signed.reduce((sum, part) => sum.update(part), createHmac('sha256', key)).digest();
const hashOf = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

/** In constant time, which hashes of equal length give. */
const isEqual = (signature: string, own: string): boolean =>
  timingSafeEqual(createHash('sha256').update(signature).digest(), createHash('sha256').update(own).digest());
