import { type RawBuilder, sql } from 'kysely';
import { z } from 'zod';
import { USAGE_DIMENSIONS, type UsageDimension } from '../../domain/usage-dimensions.ts';
import type { Db } from '../db/database.ts';
import { eachTenant } from '../db/each-tenant.ts';
import { TOKEN_COLUMNS, tokenColumns } from '../db/usage-columns.ts';

/** Runs that one look sums up: the newest of the window. */
const MOST_RUNS = 50_000;
/** Rows of an answer. */
const MOST_ROWS = 5_000;

export type UsageFilter = Readonly<{
  /** Null: all tenants. */
  tenantId: string | null;
  by: readonly UsageDimension[];
  /** Of the creation of the runs; `until` is not in the window. */
  since: Date;
  until: Date;
}>;

const rowSchema = z.object({
  day: z.string().nullable(),
  agent: z.string().nullable(),
  model: z.string().nullable(),
  tenant: z.string().nullable(),
  runs: z.int(),
  failedRuns: z.int(),
  steps: z.int(),
  ...tokenColumns,
  costUsd: z.number().nullable(),
  earliest: z.date(),
  looked: z.int(),
});

export type UsageRow = z.infer<typeof rowSchema>;

/** The dimensions that are not asked for are null. */
const VALUES: Readonly<Record<UsageDimension, RawBuilder<unknown>>> = {
  day: sql`to_char(counted.created_at at time zone 'utc', 'YYYY-MM-DD')`,
  agent: sql`sessions.agent_name`,
  // Its newest steps tell: a session may have another model by now, and its copy of the agent is large.
  model: sql`(select model from messages where run_id = counted.id and step_no <= counted.pending_no and model is not null
    order by step_no desc limit 1)`,
  tenant: sql`counted.tenant_id`,
};

/**
 * Usage of runs, by day (UTC) of their creation, agent, model or tenant: the newest days first, and the most tokens
 * first. `since` is later than asked where the window has too many runs.
 */
export async function readUsage(
  db: Db,
  { tenantId, by, since, until }: UsageFilter,
): Promise<Readonly<{ rows: readonly UsageRow[]; since: Date; complete: boolean }>> {
  const values = USAGE_DIMENSIONS.map(
    (each) => sql`${by.includes(each) ? VALUES[each] : sql`null::text`} as ${sql.ref(each)}`,
  );
  const { rows } = await sql`
    with counted as materialized (
      select newest.* from ${eachTenant(tenantId)} as tenants, lateral (
        select id, session_id, tenant_id, status, step_count, pending_no, created_at, cost_usd,
          ${sql.join(TOKEN_COLUMNS.map((column) => sql.ref(column)))}
        from runs where tenant_id = tenants.id and created_at >= ${since} and created_at < ${until}
        order by created_at desc limit ${MOST_RUNS}
      ) as newest order by created_at desc limit ${MOST_RUNS}
    ), valued as (
      select ${sql.join(values)}, counted.* from counted ${by.includes('agent') ? sql`join sessions on sessions.id = counted.session_id` : sql``}
    )
    select valued.day, valued.agent, valued.model, valued.tenant, count(*) as runs,
      count(*) filter (where status = 'failed') as "failedRuns", sum(step_count)::bigint as steps,
      ${sql.join(TOKEN_COLUMNS.map((column) => sql`sum(${sql.ref(column)})::bigint as ${sql.ref(column)}`))},
      case when count(*) = count(cost_usd) then sum(cost_usd) end as "costUsd",
      (select min(created_at) from counted) as earliest, (select count(*) from counted) as looked
    from valued group by 1, 2, 3, 4
    order by 1 desc nulls last, sum(input_tokens + output_tokens) desc limit ${MOST_ROWS + 1}`.execute(db);
  const all = z.array(rowSchema).parse(rows);
  const [first] = all;
  const isCut = first !== undefined && first.looked >= MOST_RUNS;
  return {
    rows: all.slice(0, MOST_ROWS),
    since: isCut ? first.earliest : since,
    complete: !isCut && all.length <= MOST_ROWS,
  };
}
