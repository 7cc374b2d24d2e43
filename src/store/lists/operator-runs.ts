import { sql } from 'kysely';
import { z } from 'zod';
import { PENDING_KINDS, RUN_KINDS, RUN_STATUSES, type RunStatus } from '../../domain/run/run.ts';
import type { Db } from '../db/database.ts';
import { eachTenant } from '../db/each-tenant.ts';
import { TOKEN_COLUMNS, tokenColumns } from '../db/usage-columns.ts';

const rowSchema = z.object({
  id: z.string(),
  session_id: z.string(),
  tenant: z.string(),
  agent: z.string(),
  kind: z.enum(RUN_KINDS),
  status: z.enum(RUN_STATUSES),
  reason: z.string().nullable(),
  errorCode: z.string().nullable(),
  steps: z.int(),
  ...tokenColumns,
  costUsd: z.number().nullable(),
  created_at: z.date(),
  startedAt: z.date().nullable(),
  finishedAt: z.date().nullable(),
  pendingKind: z.enum(PENDING_KINDS).nullable(),
  pendingAt: z.date().nullable(),
  isDelegating: z.boolean(),
  isClaimed: z.boolean(),
  throttledAt: z.date().nullable(),
  approvalExpiresAt: z.date().nullable(),
});
export type OperatorRun = z.infer<typeof rowSchema>;

export type OperatorRunFilter = Readonly<{
  /** Null: all tenants. */
  tenantId: string | null;
  limit: number;
  status?: RunStatus;
  after?: Readonly<{ createdAt: string; id: string }>;
}>;

/** Runs of all tenants without anything that was said in them, newest first. */
export async function listOperatorRuns(
  db: Db,
  { tenantId, limit, status, after }: OperatorRunFilter,
): Promise<OperatorRun[]> {
  const place =
    after === undefined ? sql`` : sql`and (created_at, id) < (${new Date(after.createdAt)}, ${after.id}::uuid)`;
  const { rows } = await sql`
    select page.id, page.session_id, page.tenant_id as tenant, sessions.agent_name as agent, page.kind, page.status,
      page.status_reason as reason, page.error ->> 'code' as "errorCode", page.step_count as steps,
      ${sql.join(TOKEN_COLUMNS.map((column) => sql.ref(`page.${column}`)))}, page.cost_usd as "costUsd", page.created_at, page.started_at as "startedAt", page.finished_at as "finishedAt",
      page.pending_kind as "pendingKind", page.pending_at as "pendingAt", page.is_delegating as "isDelegating", page.claim_id is not null as "isClaimed",
      page.throttled_at as "throttledAt", page.approval_expires_at as "approvalExpiresAt"
    from (
      select newest.* from ${eachTenant(tenantId)} as tenants, lateral (
        select * from runs where tenant_id = tenants.id ${status === undefined ? sql`` : sql`and status = ${status}`} ${place}
        order by created_at desc, id desc limit ${limit}
      ) as newest order by created_at desc, id desc limit ${limit}
    ) as page join sessions on sessions.id = page.session_id
    order by page.created_at desc, page.id desc`.execute(db);
  return z.array(rowSchema).parse(rows);
}
