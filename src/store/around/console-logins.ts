import { randomBytes, timingSafeEqual } from 'node:crypto';
import { sql } from 'kysely';
import type { Caller, LoginProof } from '../../domain/access.ts';
import { CONSOLE_LOGIN_LASTS_MS, MAX_LOGINS_PER_KEY } from '../../domain/tunables.ts';
import type { Db, Tx } from '../db/database.ts';
import { hashOf, IS_VALID_KEY, noteKeyUse, toScopes } from './api-keys.ts';

const SECRET_BYTES = 32;
const newSecret = (): string => randomBytes(SECRET_BYTES).toString('base64url');

/** The three secrets of a login: of the cookie, of the page that logged in, and of the address of the board. */
export type NewLogin = Readonly<{ cookie: string; page: string; board: string; expiresAt: Date }>;

/** Begins a login of a key. Of the key's earlier ones the newest stay. The database stores only hashes. */
export async function createLogin(tx: Tx, { id, keyId }: Readonly<{ id: string; keyId: string }>): Promise<NewLogin> {
  const secrets = { cookie: newSecret(), page: newSecret(), board: newSecret() };
  await sql`
    delete from console_logins where expires_at <= clock_timestamp() or id in (
      select id from console_logins where key_id = ${keyId} order by created_at desc, id desc
      offset ${MAX_LOGINS_PER_KEY - 1})`.execute(tx);
  const { expires_at: expiresAt } = await tx
    .insertInto('console_logins')
    .values({
      id,
      key_id: keyId,
      cookie_sha256: hashOf(secrets.cookie),
      page_sha256: hashOf(secrets.page),
      board_sha256: hashOf(secrets.board),
      expires_at: sql<Date>`clock_timestamp() + make_interval(secs => ${CONSOLE_LOGIN_LASTS_MS / 1_000})`,
    })
    .returning('expires_at')
    .executeTakeFirstOrThrow();
  return { ...secrets, expiresAt };
}

type LoginRow = Readonly<{
  id: string;
  keyId: string;
  tenantId: string;
  scopes: string[];
  cookieSha256: Buffer;
  proofSha256: Buffer;
}>;

/**
 * The caller whose login has this cookie and this second secret, while neither it nor its key has ended. Records the use
 * of the key.
 */
export async function findLogin(db: Db, { cookie, proof }: LoginProof): Promise<Caller | null> {
  const cookieSha256 = hashOf(cookie);
  const isLogin = sql`cookie_sha256 = ${cookieSha256} and console_logins.expires_at > clock_timestamp()`;
  const { rows } = await sql<LoginRow>`
    with used as (${noteKeyUse(sql`id in (select key_id from console_logins where ${isLogin})`)})
    select console_logins.id, owner.id as "keyId", tenant_id as "tenantId", scopes, cookie_sha256 as "cookieSha256",
      ${sql.ref(`${proof.of}_sha256`)} as "proofSha256"
    from console_logins join (select id, tenant_id, scopes from api_keys where ${IS_VALID_KEY}) as owner on owner.id = key_id
    where ${isLogin}`.execute(db);
  const [row] = rows;
  if (row === undefined || !timingSafeEqual(row.cookieSha256, cookieSha256)) return null;
  if (!timingSafeEqual(row.proofSha256, hashOf(proof.secret))) return null;
  return { keyId: row.keyId, tenantId: row.tenantId, scopes: toScopes(row.scopes), loginId: row.id };
}

/** Ends a login: its next request is refused. One that does not exist has ended already. */
export async function endLogin(tx: Tx, loginId: string): Promise<void> {
  await tx.deleteFrom('console_logins').where('id', '=', loginId).execute();
}
