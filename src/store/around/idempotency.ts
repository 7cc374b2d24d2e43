import { sql } from 'kysely';
import { z } from 'zod';
import { BatonError } from '../../domain/errors.ts';
import { IDEMPOTENCY_KEPT_MS } from '../../domain/tunables.ts';
import { type Db, inTransaction, type Tx } from '../db/database.ts';
import { toWrittenJson } from '../db/json.ts';
import { inLockQueue } from '../db/lock-queue.ts';

/** A request that the sender may repeat: the same key gets the same answer, and the work is done once. */
export type KeyedRequest = Readonly<{
  tenantId: string;
  /** Method and path template. Each route has its own key space. */
  route: string;
  key: string;
  /** Hash of path and body. The same key with another request is an error of the sender. */
  requestSha256: Uint8Array;
}>;

export type KeyedAnswer = Readonly<{ status: number; body: unknown; isReplay: boolean }>;

const storedSchema = z.object({ isSame: z.boolean(), status: z.number(), body: z.unknown() });

/**
 * Does the work of a request once: the answer is stored in the same transaction and replayed for a repetition, unless
 * `work` failed. Requests with the same key wait for each other.
 * @throws BatonError `idempotency_conflict` if the key belongs to another request; errors of `work`
 */
export async function answerOnce(
  db: Db,
  request: KeyedRequest,
  work: (tx: Tx) => Promise<Readonly<{ status: number; body: unknown }>>,
): Promise<KeyedAnswer> {
  const { tenantId, route, key, requestSha256 } = request;
  return inTransaction(db, async (tx) => {
    await lockKey(tx, `${tenantId} ${route} ${key}`);
    const { rows } = await sql`
      select request_sha256 = ${requestSha256} as "isSame", response_status as status, response_body as body
      from idempotency_keys
      where tenant_id = ${tenantId} and route = ${route} and key = ${key} and expires_at > clock_timestamp()`.execute(
      tx,
    );
    const stored = rows[0] === undefined ? null : storedSchema.parse(rows[0]);
    if (stored?.isSame === false) {
      throw new BatonError('idempotency_conflict', `the key ${key} came with another request before`);
    }
    if (stored !== null) return { status: stored.status, body: stored.body, isReplay: true };
    const { status, body } = await work(tx);
    await sql`
      insert into idempotency_keys
        (tenant_id, route, key, request_sha256, response_status, response_body, expires_at)
      values (${tenantId}, ${route}, ${key}, ${requestSha256}, ${status}, ${toWrittenJson(body)}::jsonb,
        clock_timestamp() + make_interval(secs => ${IDEMPOTENCY_KEPT_MS / 1_000}))
      on conflict (tenant_id, route, key) do update set request_sha256 = excluded.request_sha256,
        response_status = excluded.response_status, response_body = excluded.response_body,
        created_at = clock_timestamp(), expires_at = excluded.expires_at`.execute(tx);
    return { status, body, isReplay: false };
  });
}

/**
 * Waits until no other transaction holds the lock of this name. To be taken before every other lock, so that a waiting
 * request holds no lock that the working one needs.
 */
export async function lockKey(tx: Tx, name: string): Promise<void> {
  await inLockQueue(name, () =>
    sql`select pg_advisory_xact_lock(hashtextextended(current_schema() || ' ' || ${name}, 0))`.execute(tx),
  );
}

/** Tenants that one look for expired keys reaches. */
const TENANTS_PER_LOOK = 100;

/**
 * Removes at most `perTenant` expired keys of each of the next tenants, behind `after` in the order of their ids.
 * `last`: the tenant to go on behind; null: there are no more.
 */
export async function forgetExpiredKeys(
  db: Db,
  { after, perTenant }: Readonly<{ after: string; perTenant: number }>,
): Promise<Readonly<{ removed: number; last: string | null }>> {
  const { rows } = await sql<{ removed: number; last: string | null }>`
    with recursive now as materialized (select clock_timestamp() as at), tenants as (
      (select tenant_id as id, 1 as nth from idempotency_keys where tenant_id > ${after} order by tenant_id limit 1)
      union all
      select next.id, tenants.nth + 1 from tenants cross join lateral (
        select tenant_id as id from idempotency_keys where tenant_id > tenants.id order by tenant_id limit 1) as next
      where tenants.nth < ${TENANTS_PER_LOOK}
    ), expired as materialized (
      select found.at from tenants cross join lateral (
        select ctid as at from idempotency_keys
        where tenant_id = tenants.id and expires_at <= (select at from now)
        order by expires_at limit ${perTenant} for update skip locked) as found
    ), removed as (
      -- By their places: a join might read all keys.
      delete from idempotency_keys where ctid = any(array(select at from expired)) returning 1)
    select (select count(*)::int from removed) as removed,
      (select id from tenants where nth = ${TENANTS_PER_LOOK}) as last`.execute(db);
  return rows[0] ?? { removed: 0, last: null };
}
