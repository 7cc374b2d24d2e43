import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { type RawBuilder, sql } from 'kysely';
import { type Caller, KEY_PREFIX, MAX_KEYS_PER_TENANT, SCOPES, type Scope } from '../../domain/access.ts';
import { BatonError } from '../../domain/errors.ts';
import { formatId } from '../../domain/ids.ts';
import type { Db, Tx } from '../db/database.ts';
import { lockKey } from './idempotency.ts';

const SECRET_BYTES = 32;
/** Enough to tell keys apart in a list. The hidden rest is too long to guess. */
const SHOWN_CHARS = KEY_PREFIX.length + 4;

export type ApiKey = Readonly<{
  id: string;
  tenantId: string;
  name: string;
  /** The first characters of the secret. */
  shown: string;
  scopes: readonly Scope[];
  createdAt: Date;
  /** Exact to the minute. */
  lastUsedAt: Date | null;
  /** The key is refused from this time on. Null: it never expires. */
  expiresAt: Date | null;
  revokedAt: Date | null;
}>;

export type NewApiKey = Pick<ApiKey, 'id' | 'tenantId' | 'name' | 'scopes' | 'expiresAt'>;

const COLUMNS = [
  'id',
  'tenant_id as tenantId',
  'name',
  'shown',
  'scopes',
  'created_at as createdAt',
  'last_used_at as lastUsedAt',
  'expires_at as expiresAt',
  'revoked_at as revokedAt',
] as const;

/** A fast hash is enough: the secret is 256 random bits, so no dictionary helps to guess it. */
export const hashOf = (secret: string): Buffer => createHash('sha256').update(secret).digest();

/** Creates a key and returns its secret. The database stores only the hash. */
export async function createApiKey(tx: Tx, key: NewApiKey): Promise<string> {
  const secret = KEY_PREFIX + randomBytes(SECRET_BYTES).toString('base64url');
  await tx
    .insertInto('api_keys')
    .values({
      id: key.id,
      tenant_id: key.tenantId,
      name: key.name,
      shown: secret.slice(0, SHOWN_CHARS),
      key_sha256: hashOf(secret),
      scopes: [...key.scopes],
      expires_at: key.expiresAt,
    })
    .execute();
  return secret;
}

/**
 * Locks the tenant's list of keys for one more. Of its keys that are not valid any more the newest stay.
 * @throws BatonError `conflict`: the tenant has as many valid keys as it may
 */
export async function makeRoomForKey(tx: Tx, tenantId: string): Promise<void> {
  await lockKey(tx, `keys ${tenantId}`);
  const { rows } = await sql<{ valid: number }>`
    with ended as (
      select id from api_keys where tenant_id = ${tenantId} and not ${IS_VALID_KEY}
      order by created_at desc, id desc offset ${MAX_KEYS_PER_TENANT}
    ), forgotten as (delete from api_keys where id in (select id from ended))
    select count(*)::integer as valid from api_keys where tenant_id = ${tenantId} and ${IS_VALID_KEY}`.execute(tx);
  if ((rows[0]?.valid ?? 0) < MAX_KEYS_PER_TENANT) return;
  throw new BatonError('conflict', `at most ${MAX_KEYS_PER_TENANT} valid keys: revoke one that is not needed`);
}

/** When a key expires. Null: never, or the caller has no key. */
export async function findKeyExpiry(db: Db, keyId: string | null): Promise<Date | null> {
  if (keyId === null) return null;
  const row = await db.selectFrom('api_keys').select('expires_at').where('id', '=', keyId).executeTakeFirst();
  return row?.expires_at ?? null;
}

/** All keys, oldest first, including revoked and expired ones. */
export async function listApiKeys(db: Db): Promise<ApiKey[]> {
  const rows = await db.selectFrom('api_keys').select(COLUMNS).orderBy('created_at').orderBy('id').execute();
  return rows.map((row) => ({ ...row, scopes: toScopes(row.scopes) }));
}

type KeyFilter = Readonly<{
  tenantId: string;
  limit: number;
  /** Only those after this one. */
  after?: Readonly<{ id: string }>;
}>;

/** The keys of a tenant, newest first, including revoked and expired ones. */
export async function listKeysOfTenant(db: Db, { tenantId, limit, after }: KeyFilter): Promise<ApiKey[]> {
  let query = db.selectFrom('api_keys').select(COLUMNS).where('tenant_id', '=', tenantId);
  if (after !== undefined) {
    query = query.where((eb) =>
      // Read from the row, which stays: a time of JavaScript lacks the microseconds, so keys of one millisecond would be lost.
      eb(
        eb.refTuple('created_at', 'id'),
        '<',
        eb.tuple(
          eb.selectFrom('api_keys').select('created_at').where('id', '=', after.id).where('tenant_id', '=', tenantId),
          eb.val(after.id),
        ),
      ),
    );
  }
  const rows = await query.orderBy('created_at', 'desc').orderBy('id', 'desc').limit(limit).execute();
  return rows.map((row) => ({ ...row, scopes: toScopes(row.scopes) }));
}

/**
 * Revokes a key: its next request is refused.
 * @param ofTenant absent: a key of any tenant
 * @returns the tenant of the key
 * @throws BatonError `not_found`; `conflict` if the key is already revoked
 */
export async function revokeApiKey(tx: Tx, id: string, ofTenant?: string): Promise<string> {
  const key = await tx
    .selectFrom('api_keys')
    .select(['tenant_id', 'revoked_at'])
    .where('id', '=', id)
    .forUpdate()
    .executeTakeFirst();
  const name = `key ${formatId('key', id)}`;
  if (key === undefined || (ofTenant !== undefined && key.tenant_id !== ofTenant)) {
    throw new BatonError('not_found', `${name} does not exist`);
  }
  if (key.revoked_at === null) {
    await tx.updateTable('api_keys').set({ revoked_at: sql`clock_timestamp()` }).where('id', '=', id).execute();
    return key.tenant_id;
  }
  throw new BatonError('conflict', `${name} was revoked already`);
}

/** Whether a key was ever created. If so, every request needs one, even when all keys are revoked. */
export async function hasApiKeys(db: Db): Promise<boolean> {
  const { rows } = await sql<{ exists: boolean }>`select exists (select 1 from api_keys)`.execute(db);
  return rows[0]?.exists === true;
}

type KeyRow = Readonly<{
  id: string;
  tenantId: string;
  scopes: string[];
  sha256: Buffer;
  isRevoked: boolean;
  isValid: boolean;
}>;

/** Why a secret opens nothing. Whoever has the whole secret may know what became of its key. */
export type KeyRefusal = 'unknown' | 'revoked' | 'expired';

export type FoundCaller = Readonly<{ kind: 'caller'; caller: Caller } | { kind: 'refused'; why: KeyRefusal }>;

/** Of a row of `api_keys`. */
export const IS_VALID_KEY = sql`(revoked_at is null and (expires_at is null or expires_at > clock_timestamp()))`;

/**
 * Records the use of a key at most once a minute, and never waits for another request that does so.
 * @param condition which rows of `api_keys` it is about
 */
export const noteKeyUse = (condition: RawBuilder<unknown>) => sql`
  update api_keys set last_used_at = clock_timestamp() where id in (
    select id from api_keys
    where ${condition} and ${IS_VALID_KEY}
      and coalesce(last_used_at < clock_timestamp() - interval '1 minute', true)
    for no key update skip locked)`;

/** The caller that has this secret, if its key is valid; else why not. Records the use. */
export async function findCaller(db: Db, secret: string): Promise<FoundCaller> {
  const sha256 = hashOf(secret);
  const { rows } = await sql<KeyRow>`
    with used as (${noteKeyUse(sql`key_sha256 = ${sha256}`)})
    select id, tenant_id as "tenantId", scopes, key_sha256 as sha256, revoked_at is not null as "isRevoked",
      ${IS_VALID_KEY} as "isValid"
    from api_keys where key_sha256 = ${sha256}`.execute(db);
  const [row] = rows;
  // The index compares hashes, whose first bytes an attacker cannot choose; this comparison takes constant time.
  if (row === undefined || !timingSafeEqual(row.sha256, sha256)) return { kind: 'refused', why: 'unknown' };
  if (!row.isValid) return { kind: 'refused', why: row.isRevoked ? 'revoked' : 'expired' };
  return { kind: 'caller', caller: { keyId: row.id, tenantId: row.tenantId, scopes: toScopes(row.scopes) } };
}

/** Of these ids of keys and of logins those that open nothing any more. */
export async function findEndedAccess(db: Db, ids: readonly string[]): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    select id from unnest(${[...ids]}::uuid[]) as asked (id)
    where not exists (select 1 from api_keys where api_keys.id = asked.id and ${IS_VALID_KEY})
      and not exists (select 1 from console_logins where console_logins.id = asked.id
        and expires_at > clock_timestamp()
        and exists (select 1 from api_keys where api_keys.id = key_id and ${IS_VALID_KEY}))`.execute(db);
  return rows.map(({ id }) => id);
}

/** Scopes that this version does not know are dropped: they grant nothing. */
export const toScopes = (stored: readonly string[]): Scope[] => SCOPES.filter((scope) => stored.includes(scope));
