import { sql } from 'kysely';
import { BatonError } from '../domain/errors.ts';
import type { Db, Tx } from './database.ts';

/** What the runs of one tenant may use in a day; 0: as much as they like. */
export type TenantQuota = Readonly<{ tokensPerDay: number; costUsdPerDay: number }>;

type Used = Readonly<{ tokens: number; costUsd: number }>;

/**
 * Refuses new work of a tenant that has used up its day: what the runs have used that were begun since 00:00 UTC. Runs at
 * work go on and end by limits of their own, so that the sum may end up higher.
 * @throws BatonError `quota_exceeded`
 */
export async function refuseOverQuota(db: Db | Tx, tenantId: string, quota: TenantQuota | undefined): Promise<void> {
  const { tokensPerDay = 0, costUsdPerDay = 0 } = quota ?? {};
  if (tokensPerDay === 0 && costUsdPerDay === 0) return;
  const { rows } = await sql<Used>`
    select coalesce(sum(input_tokens + output_tokens), 0)::double precision as tokens,
      coalesce(sum(cost_usd), 0)::double precision as "costUsd"
    from runs where tenant_id = ${tenantId}
      and created_at >= (select date_trunc('day', clock_timestamp() at time zone 'utc') at time zone 'utc')`.execute(
    db,
  );
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
