import { sql } from 'kysely';
import { z } from 'zod';
import { errorRecordSchema } from '../../domain/errors.ts';
import type { FailedRun } from '../../domain/run/failure-groups.ts';
import type { Db } from '../db/database.ts';
import { eachTenant } from '../db/each-tenant.ts';

/** Failed runs that one look groups: the newest ones. */
const MOST_FAILED_RUNS = 2_000;

const rowSchema = z.object({
  runId: z.string(),
  sessionId: z.string(),
  tenant: z.string(),
  agent: z.string(),
  model: z.string().nullable(),
  error: errorRecordSchema,
  at: z.date(),
});

export type FailedRunFilter = Readonly<{
  /** Null: all tenants. */
  tenantId: string | null;
  /** Of the creation of the run. */
  since: Date;
  agent?: string;
}>;

/** The newest failed runs: `complete` says whether there are no more. The time of a failure is the end of its run. */
export async function readFailedRuns(
  db: Db,
  { tenantId, since, agent }: FailedRunFilter,
): Promise<Readonly<{ runs: readonly FailedRun[]; complete: boolean }>> {
  // The model of its last answer: the session may have switched since, and its copy of the agent is large.
  const { rows } = await sql`
    select failed.id as "runId", failed.session_id as "sessionId", failed.tenant_id as tenant, sessions.agent_name as agent,
      failed.error, coalesce(failed.finished_at, failed.created_at) as at,
      (select model from messages where run_id = failed.id and step_no <= failed.pending_no and model is not null
        order by step_no desc limit 1) as model
    from (
      select newest.* from ${eachTenant(tenantId)} as tenants, lateral (
        select id, session_id, tenant_id, error, created_at, finished_at, pending_no from runs
        where tenant_id = tenants.id and status = 'failed' and created_at >= ${since}
        order by created_at desc, id desc limit ${MOST_FAILED_RUNS + 1}
      ) as newest order by created_at desc, id desc limit ${MOST_FAILED_RUNS + 1}
    ) as failed join sessions on sessions.id = failed.session_id where failed.error is not null
    order by failed.created_at desc, failed.id desc`.execute(db);
  const runs = z
    .array(rowSchema)
    .parse(rows)
    .map(({ error, ...run }): FailedRun => ({ ...run, code: error.code, message: error.message }));
  const kept = runs.slice(0, MOST_FAILED_RUNS).filter((run) => agent === undefined || run.agent === agent);
  return { runs: kept, complete: runs.length <= MOST_FAILED_RUNS };
}
