import { sql } from 'kysely';
import type { JobPayload } from '../../domain/run/job.ts';
import type { PendingKind } from '../../domain/run/run.ts';
import { ENGINE_VERSION, SWEEP_BACKOFF_CAP_MS } from '../../domain/tunables.ts';
import type { Db } from '../db/database.ts';

export type DueWork = Readonly<{ tenantId: string; job: JobPayload }>;

/** A tenant without such work has one row, without a run. */
type Row = Readonly<{ tenantId: string; nth: number }> &
  (Readonly<{ runId: string; no: number; dispatch: number }> | Readonly<{ runId: null; no: null; dispatch: null }>);

/** Tenants that one look reaches. The next look goes on behind them. */
const TENANTS_PER_LOOK = 100;

/**
 * Unclaimed work of one kind that has been due for longer than `waitedMs`, of several tenants: of each the longest due
 * first. `last`: the tenant behind which others may have some. The tenants are found by a walk in the index from one to the next, so what one of them has costs nothing.
 */
export async function findDueWork(
  db: Db,
  kind: PendingKind,
  {
    without,
    after,
    perTenant,
    waitedMs,
  }: Readonly<{
    /** Tenants that are left out. */
    without: readonly string[];
    /** Only tenants behind this one, in the order of their ids. */
    after: string;
    perTenant: number;
    waitedMs: number;
  }>,
): Promise<Readonly<{ due: readonly DueWork[]; last: string | null }>> {
  const { rows } = await sql<Row>`
    with recursive now as materialized (select clock_timestamp() as at), tenants as (
      (select tenant_id as id, 1 as nth from runs
        where due_at is not null and pending_kind = ${kind} and tenant_id > ${after} order by tenant_id limit 1)
      union all
      select next.id, tenants.nth + 1 from tenants cross join lateral (
        select tenant_id as id from runs where due_at is not null and pending_kind = ${kind} and tenant_id > tenants.id
        order by tenant_id limit 1) as next
      where tenants.nth < ${TENANTS_PER_LOOK}
    )
    select tenants.id as "tenantId", tenants.nth, run.id as "runId", run.no, run.dispatch
    from tenants left join lateral (
      select id, pending_no as no, pending_dispatch as dispatch, due_at from runs
      where pending_kind = ${kind} and tenant_id = tenants.id and tenants.id <> all(${[...without]}::text[])
        -- A check that was put off makes it no later.
        and due_at < (select at + make_interval(secs => ${SWEEP_BACKOFF_CAP_MS / 1000}) from now)
        and pending_at < (select at - make_interval(secs => ${waitedMs / 1000}) from now)
        and required_engine <= ${ENGINE_VERSION}
      order by due_at limit ${perTenant}) as run on true
    order by tenants.nth, run.due_at`.execute(db);
  const due = rows.flatMap(({ tenantId, runId, no, dispatch }) =>
    runId === null ? [] : [{ tenantId, job: { runId, kind, no, dispatch } }],
  );
  return { due, last: rows.find(({ nth }) => nth === TENANTS_PER_LOOK)?.tenantId ?? null };
}

/** The tenant of each of these runs. */
export async function findTenantsOfRuns(db: Db, runIds: readonly string[]): Promise<readonly string[]> {
  if (runIds.length === 0) return [];
  const { rows } = await sql<{ tenantId: string }>`
    select tenant_id as "tenantId" from runs where id = any(${[...runIds]}::uuid[])`.execute(db);
  return rows.map(({ tenantId }) => tenantId);
}
