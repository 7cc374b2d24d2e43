import { type RawBuilder, sql } from 'kysely';
import type { Db } from '../../src/store/db/database.ts';

/** Invariants of every moment, each with the query for the sessions or tenants that break it. */
const INVARIANTS: Readonly<Record<string, RawBuilder<{ id: string }>>> = {
  'one run is active': sql`
    select session_id as id from runs where status in ('queued', 'running', 'requires_action', 'cancelling')
    group by session_id having count(*) > 1`,
  'the session knows its active run': sql`
    select s.id from sessions s left join runs r
      on r.session_id = s.id and r.status in ('queued', 'running', 'requires_action', 'cancelling')
    where s.active_run_id is distinct from r.id
      or (s.status = 'requires_action') <> (coalesce(r.status, '') = 'requires_action')
      or (s.status in ('busy', 'requires_action')) <> (r.id is not null)`,
  'events are numbered without a gap': sql`
    select s.id from sessions s left join events e on e.session_id = s.id
    group by s.id having count(e.seq) <> s.event_seq or coalesce(max(e.seq), 0) <> s.event_seq`,
  'messages are numbered without a gap': sql`
    select s.id from sessions s left join messages m on m.session_id = s.id
    group by s.id having count(m.seq) <> s.message_seq or coalesce(max(m.seq), 0) <> s.message_seq`,
  'an accepted message waits or is in the transcript, never both, never twice': sql`
    select i.session_id as id from inbox i
    left join messages m on m.session_id = i.session_id
      and m.metadata -> 'inbox' @> jsonb_build_array(jsonb_build_object('id', baton_public_id('msg', i.id)))
    group by i.session_id, i.id, i.consumed_message_seq
    having count(m.id) <> case when i.consumed_message_seq is null then 0 else 1 end`,
  'no run is ahead of its session': sql`
    select s.id from sessions s join runs r on r.session_id = s.id where r.epoch > s.epoch`,
  'what is counted as stored for a tenant is what is stored': sql`
    with stored as (
      select tenant_id, 8192 as bytes from sessions
      union all select tenant_id, content_bytes from inbox
      union all select tenant_id, content_bytes from parts
      union all select tenant_id, size_bytes from blobs
      union all select tenant_id, -bytes from stored_bytes)
    select tenant_id as id from stored group by tenant_id having sum(bytes) <> 0`,
  'nobody holds a run that has ended': sql`
    select session_id as id from runs
    where claim_id is not null and status not in ('running', 'cancelling')`,
};

/** The names of the broken invariants, each with its sessions or tenants. */
export async function brokenInvariants(db: Db): Promise<string[]> {
  const broken: string[] = [];
  for (const [name, find] of Object.entries(INVARIANTS)) {
    const { rows } = await find.execute(db);
    if (rows.length > 0) broken.push(`${name}: not in ${rows.map(({ id }) => id).join(', ')}`);
  }
  return broken;
}
