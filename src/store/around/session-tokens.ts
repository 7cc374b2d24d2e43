import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';
import { sql } from 'kysely';
import {
  decodeClaims,
  encodeClaims,
  MAX_TOKEN_CHARS,
  type SessionClaims,
  TOKEN_PREFIX,
} from '../../domain/run/session-token.ts';
import type { Db } from '../db/database.ts';

const SECRET_BYTES = 32;

/** Of each database: the secret never changes. */
const secrets = new WeakMap<Db, Promise<Buffer>>();

async function secretOf(db: Db): Promise<Buffer> {
  const reading = secrets.get(db) ?? readTokenSecret(db);
  secrets.set(db, reading);
  reading.catch(() => secrets.delete(db));
  return reading;
}

/** The secret with which this installation seals the tokens of sessions. The first process that needs it makes it. */
async function readTokenSecret(db: Db): Promise<Buffer> {
  const known = await findSecret(db);
  if (known !== undefined) return known;
  await sql`insert into token_secret (secret) values (${randomBytes(SECRET_BYTES)}) on conflict do nothing`.execute(db);
  const made = await findSecret(db);
  if (made === undefined) throw new Error('the table token_secret has no row');
  return made;
}

async function findSecret(db: Db): Promise<Buffer | undefined> {
  const { rows } = await sql<{ secret: Buffer }>`select secret from token_secret`.execute(db);
  return rows[0]?.secret;
}

const CIPHER = 'aes-256-gcm';
const SALT_BYTES = 16;
const TAG_BYTES = 16;
const IV_BYTES = 12;

/** Key and nonce of one token. No two tokens share them, because each has a salt of its own. */
function keyOf(secret: Buffer, salt: Buffer): Readonly<{ key: Buffer; iv: Buffer }> {
  const derived = Buffer.from(hkdfSync('sha256', secret, salt, 'session token', 32 + IV_BYTES));
  return { key: derived.subarray(0, 32), iv: derived.subarray(32) };
}

/**
 * A token that opens one session, `batontoken_<salt, sealed claims, tag>`. Its holder is a stranger to the tenant, so the
 * claims are encrypted: they name the tenant and the key.
 */
export async function issueToken(db: Db, claims: SessionClaims): Promise<string> {
  const salt = randomBytes(SALT_BYTES);
  const { key, iv } = keyOf(await secretOf(db), salt);
  const cipher = createCipheriv(CIPHER, key, iv, { authTagLength: TAG_BYTES });
  const sealed = Buffer.concat([cipher.update(encodeClaims(claims), 'utf8'), cipher.final()]);
  return TOKEN_PREFIX + Buffer.concat([salt, sealed, cipher.getAuthTag()]).toString('base64url');
}

export const isToken = (secret: string): boolean => secret.startsWith(TOKEN_PREFIX);

/** Null: it was not made here, or has expired. */
export async function readToken(db: Db, token: string): Promise<SessionClaims | null> {
  if (token.length > MAX_TOKEN_CHARS) return null;
  const text = token.slice(TOKEN_PREFIX.length);
  const bytes = Buffer.from(text, 'base64url');
  // One spelling of each token: the decoder passes over characters that are no base64.
  if (bytes.length <= SALT_BYTES + TAG_BYTES || bytes.toString('base64url') !== text) return null;
  const claims = open(await secretOf(db), bytes);
  return claims === null || claims.expiresAtMs <= Date.now() ? null : claims;
}

function open(secret: Buffer, bytes: Buffer): SessionClaims | null {
  const { key, iv } = keyOf(secret, bytes.subarray(0, SALT_BYTES));
  const decipher = createDecipheriv(CIPHER, key, iv, { authTagLength: TAG_BYTES });
  decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
  const sealed = decipher.update(bytes.subarray(SALT_BYTES, -TAG_BYTES));
  try {
    return decodeClaims(Buffer.concat([sealed, decipher.final()]).toString('utf8'));
  } catch {
    return null;
  }
}
