import { sql } from 'kysely';
import { BatonError } from '../../domain/errors.ts';
import type { Db, Tx } from '../db/database.ts';

/** Daily use and stored bytes of one tenant. 0: no limit. */
export type TenantQuota = Readonly<{ tokensPerDay: number; costUsdPerDay: number; storedBytes: number }>;

export const NO_QUOTA: TenantQuota = { tokensPerDay: 0, costUsdPerDay: 0, storedBytes: 0 };

type Used = Readonly<{ tokens: number; costUsd: number }>;

const TODAY = sql`(clock_timestamp() at time zone 'utc')::date`;
/** 00:00 UTC, evaluated once per statement. */
const MIDNIGHT = sql`(select date_trunc('day', clock_timestamp() at time zone 'utc') at time zone 'utc')`;
const USED = sql`coalesce(sum(input_tokens + output_tokens), 0)::double precision as tokens,
  coalesce(sum(cost_usd), 0)::double precision as "costUsd"`;

/**
 * Refuses new work of a tenant whose runs of today, including deleted ones, have reached the quota. Active runs
 * continue, so the sum may exceed it.
 * @throws BatonError `quota_exceeded`
 */
export async function refuseOverQuota(
  db: Db | Tx,
  tenantId: string,
  { tokensPerDay, costUsdPerDay }: TenantQuota,
): Promise<void> {
  if (tokensPerDay === 0 && costUsdPerDay === 0) return;
  // One statement, so that a session deleted at this moment counts exactly once.
  const { rows } = await sql<Used>`
    select kept.tokens + coalesce(deleted.tokens, 0) as tokens, kept."costUsd" + coalesce(deleted.cost_usd, 0) as "costUsd"
    from (select ${USED} from runs where tenant_id = ${tenantId} and created_at >= ${MIDNIGHT}) kept
    left join deleted_usage deleted on deleted.tenant_id = ${tenantId} and deleted.day = ${TODAY}`.execute(db);
  const { tokens = 0, costUsd = 0 } = rows[0] ?? {};
  const until = 'new messages are taken from 00:00 UTC on';
  if (tokensPerDay > 0 && tokens >= tokensPerDay) {
    throw new BatonError('quota_exceeded', `${tokens} of ${tokensPerDay} tokens of today are used; ${until}`);
  }
  if (costUsdPerDay > 0 && costUsd >= costUsdPerDay) {
    const used = `${costUsd.toFixed(2)} of ${costUsdPerDay} USD`;
    throw new BatonError('quota_exceeded', `${used} of today are used; ${until}`);
  }
}

/**
 * Refuses to store more than the tenant's quota: sessions, messages, answers, outputs, files. Active runs continue, so
 * the sum may exceed it.
 * @param bytes size of the new data, if known
 * @throws BatonError `storage_exceeded`
 */
export async function refuseOverStorage(
  db: Db | Tx,
  tenantId: string,
  { storedBytes: limit }: TenantQuota,
  bytes = 0,
): Promise<void> {
  if (limit === 0) return;
  const stored = await readStoredBytes(db, tenantId);
  if (stored + bytes < limit) return;
  throw new BatonError(
    'storage_exceeded',
    `${stored} of ${limit} bytes are stored: delete sessions (DELETE /v1/sessions/{id}) or give them an expiresAt; ` +
      'files that no session has any more go a day later',
  );
}

export async function readStoredBytes(db: Db | Tx, tenantId: string): Promise<number> {
  const { rows } = await sql<{ bytes: number }>`
    select coalesce(sum(bytes), 0)::double precision as bytes from stored_bytes where tenant_id = ${tenantId}`.execute(
    db,
  );
  return rows[0]?.bytes ?? 0;
}

/**
 * Deletes a session, but keeps counting the use of its runs of today. The caller holds the session's lock.
 * @param remove returns whether it deleted the session
 */
export async function deleteButUsage(tx: Tx, sessionId: string, remove: () => Promise<boolean>): Promise<boolean> {
  const { rows } = await sql<Used & Readonly<{ tenantId: string }>>`
    select tenant_id as "tenantId", ${USED} from runs
    where session_id = ${sessionId} and created_at >= ${MIDNIGHT} group by tenant_id`.execute(tx);
  if (!(await remove())) return false;
  // After the deletion, so that another one does not wait for the tenant's row.
  for (const { tenantId, tokens, costUsd } of rows) {
    await sql`
      insert into deleted_usage as kept (tenant_id, day, tokens, cost_usd)
      values (${tenantId}, ${TODAY}, ${tokens}, ${costUsd})
      on conflict (tenant_id) do update set
        day = excluded.day,
        tokens = excluded.tokens + case when kept.day = excluded.day then kept.tokens else 0 end,
        cost_usd = excluded.cost_usd + case when kept.day = excluded.day then kept.cost_usd else 0 end`.execute(tx);
  }
  return true;
}
