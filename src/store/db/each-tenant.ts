import { type RawBuilder, sql } from 'kysely';

/** Tenants that one look at all of them reaches. */
const MOST_TENANTS = 1_000;

/**
 * A query for the tenants to look at, as column `id`: one, or all that have runs. All are found by a walk from one tenant
 * to the next in the index, so that lists of all tenants need no further index, which each step would write.
 * @param tenantId null: all
 */
export function eachTenant(tenantId: string | null): RawBuilder<unknown> {
  if (tenantId !== null) return sql`(select ${tenantId}::text as id)`;
  return sql`(
    with recursive tenants (id) as (
      (select tenant_id from runs order by tenant_id limit 1)
      union all
      select (select tenant_id from runs where tenant_id > tenants.id order by tenant_id limit 1) from tenants
        where tenants.id is not null
    )
    select id from tenants where id is not null limit ${MOST_TENANTS})`;
}
