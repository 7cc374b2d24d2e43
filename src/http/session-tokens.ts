import { createHmac, timingSafeEqual } from 'node:crypto';
import {
  decodeClaims,
  encodeClaims,
  MAX_TOKEN_CHARS,
  type SessionClaims,
  TOKEN_PREFIX,
} from '../domain/session-token.ts';
import type { Db } from '../store/database.ts';
import { readTokenSecret } from '../store/token-secret.ts';

/** Of each database: the secret never changes. */
const secrets = new WeakMap<Db, Promise<Buffer>>();

async function secretOf(db: Db): Promise<Buffer> {
  const reading = secrets.get(db) ?? readTokenSecret(db);
  secrets.set(db, reading);
  reading.catch(() => secrets.delete(db));
  return reading;
}

const sign = (secret: Buffer, claims: string): Buffer => createHmac('sha256', secret).update(claims).digest();

/** A token that opens one session, `batontoken_<claims>.<signature>`. */
export async function issueToken(db: Db, claims: SessionClaims): Promise<string> {
  const encoded = encodeClaims(claims);
  return `${TOKEN_PREFIX}${encoded}.${sign(await secretOf(db), encoded).toString('base64url')}`;
}

export const isToken = (secret: string): boolean => secret.startsWith(TOKEN_PREFIX);

/** Null: it was not signed here, or has expired. */
export async function readToken(db: Db, token: string): Promise<SessionClaims | null> {
  if (token.length > MAX_TOKEN_CHARS) return null;
  const [encoded = '', signature = '', ...rest] = token.slice(TOKEN_PREFIX.length).split('.');
  const given = Buffer.from(signature, 'base64url');
  const expected = sign(await secretOf(db), encoded);
  if (rest.length > 0 || given.length !== expected.length || !timingSafeEqual(given, expected)) return null;
  const claims = decodeClaims(encoded);
  return claims === null || claims.expiresAtMs <= Date.now() ? null : claims;
}
