import { sql } from 'kysely';
import type { Db } from '../db/database.ts';

/** The scope of a provider's rate limit: one model at one endpoint with one key. */
export type RatedModel = Readonly<{
  endpoint: string;
  /** A hash of the key. */
  credential: string;
  modelId: string;
}>;

/** Expired pauses that each new pause removes. */
const MAX_REMOVED = 20;

/** Stores a pause that a provider asked for. The SQL function `baton_pauses` decides which sessions it concerns. */
export async function pauseModel(
  db: Db,
  { endpoint, credential, modelId }: RatedModel,
  { tenantId, sessionId }: Readonly<{ tenantId: string; sessionId: string }>,
  pauseMs: number,
): Promise<void> {
  await sql`
    with expired as (
      select tenant_id, endpoint, credential from provider_pauses
      where model = ${modelId} and until_at < now() and tenant_id <> ${tenantId}
      order by until_at limit ${MAX_REMOVED} for update skip locked
    ), removed as (
      delete from provider_pauses using expired where provider_pauses.model = ${modelId}
        and provider_pauses.tenant_id = expired.tenant_id and provider_pauses.endpoint = expired.endpoint
        and provider_pauses.credential = expired.credential
    )
    insert into provider_pauses as kept (model, tenant_id, endpoint, credential, session_id, told_at, until_at)
    values (${modelId}, ${tenantId}, ${endpoint}, ${credential}, ${sessionId}, clock_timestamp(),
      clock_timestamp() + make_interval(secs => ${pauseMs / 1_000}))
    on conflict (model, tenant_id, endpoint, credential) do update set
      session_id = case when excluded.until_at > kept.until_at then excluded.session_id else kept.session_id end,
      told_at = excluded.told_at,
      until_at = greatest(kept.until_at, excluded.until_at),
      agreed_until_at = case when excluded.session_id = kept.session_id then kept.agreed_until_at
        else greatest(kept.agreed_until_at, least(kept.until_at, excluded.until_at)) end`.execute(db);
}

/** Milliseconds until a session of the tenant may ask the model. 0: at once. */
export async function pauseLeftMs(
  db: Db,
  { endpoint, credential, modelId }: RatedModel,
  tenantId: string,
): Promise<number> {
  const { rows } = await sql<{ leftMs: number }>`
    select ceil(extract(epoch from until_at - clock_timestamp()) * 1000)::float8 as "leftMs"
    from baton_pauses(${modelId}, ${tenantId})
    where endpoint = ${endpoint} and credential = ${credential} and until_at > clock_timestamp()`.execute(db);
  return rows[0]?.leftMs ?? 0;
}
