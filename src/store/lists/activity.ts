import { sql } from 'kysely';
import type { ActivityView, SeenSession } from '../../domain/activity.ts';
import type { Db } from '../db/database.ts';

/** Sessions at work, and newest sessions, that one look reads. */
const MOST_ACTIVE = 1_000;
const NEWEST = 100;

type Row = Readonly<{ id: string; runId: string | null; signature: string; list: 'active' | 'newest' }>;

/** Reads the states that lists show: of the tenant's sessions at work and of its newest ones. */
export async function readActivity(db: Db, tenantId: string): Promise<ActivityView> {
  const seen = sql`id, active_run_id as "runId", concat_ws(' ', status, event_seq, message_seq, active_run_id) as signature`;
  const atWork = (status: string) => sql`
    (select ${seen}, 'active' as list from sessions where tenant_id = ${tenantId} and status = ${status}
      order by created_at desc, id desc limit ${MOST_ACTIVE + 1})`;
  const { rows } = await sql<Row>`
    ${atWork('busy')} union all ${atWork('requires_action')} union all
    (select ${seen}, 'newest' as list from sessions where tenant_id = ${tenantId}
      order by created_at desc, id desc limit ${NEWEST})`.execute(db);
  const viewOf = (list: Row['list']): ReadonlyMap<string, SeenSession> =>
    new Map(rows.flatMap((row) => (row.list === list ? [[row.id, row] as const] : [])));
  const active = viewOf('active');
  return { active, newest: viewOf('newest'), hasMore: active.size > MOST_ACTIVE };
}
