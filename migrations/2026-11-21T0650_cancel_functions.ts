import { type Kysely, sql } from 'kysely';

/** A cancel of a run that somebody has, and what is told of it when it ends. */
export async function up(db: Kysely<unknown>): Promise<void> {
  // Names of the tools of the run's last step that were not known to be done when its cancel was requested, call
  // by call: what has an outcome since then, and had begun. A call whose outcome is unknown may have run on.
  // What a client gave is none.
  await sql`
    create function baton_still_ran(p_run uuid) returns jsonb language plpgsql stable as $$
    begin
      return (select coalesce(jsonb_agg(p.tool_name order by m.seq, p.idx), '[]')
        from runs r
        join messages m on m.run_id = r.id and m.step_no = r.pending_no and m.role = 'assistant' and not m.superseded
        join parts p on p.message_id = m.id and p.type = 'tool'
        where r.id = p_run and p.started_at is not null and p.finished_at >= r.cancel_requested_at
          and not coalesce(p.answer -> 'given' ?| array['output', 'content'], false));
    end $$`.execute(db);

  // A run that somebody has is to stop. Null: nobody has it, or it is to stop already. The caller
  // holds the session's lock.
  await sql`
    create function baton_mark_cancelling(p_session uuid, p_run uuid, p_parks boolean) returns bigint
    language plpgsql as $$
    declare
      v_is_claimed boolean;
    begin
      select status = 'running' and claim_id is not null into v_is_claimed from runs where id = p_run for no key update;
      if v_is_claimed is distinct from true then return null; end if;
      update runs set status = 'cancelling', cancel_requested_at = clock_timestamp(),
        cancel_inbox_seq = case when p_parks then (select inbox_seq from sessions where id = p_session) else 0 end
        where id = p_run;
      return baton_append_events(p_session, p_run, jsonb_build_array(
        jsonb_build_object('type', 'run:cancelling', 'data', jsonb_build_object('runId', baton_public_id('run', p_run)))));
    end $$`.execute(db);

  // The same for whoever holds nothing yet, and waits for nothing where the run is nobody's, with the entry of who
  // wants it, where there is to be one.
  await sql`
    create function baton_cancel_claimed(p_tenant text, p_run uuid, p_audit jsonb) returns jsonb
    language plpgsql as $$
    declare
      v_session uuid;
      v_is_claimed boolean;
      v_last bigint;
    begin
      select session_id, status = 'running' and claim_id is not null into v_session, v_is_claimed
        from runs where id = p_run and tenant_id = p_tenant;
      if v_is_claimed is distinct from true then return null; end if;
      perform 1 from sessions where id = v_session for no key update;
      v_last := baton_mark_cancelling(v_session, p_run, true);
      if v_last is null then return null; end if;
      insert into audit_log (tenant_id, key_id, action, target)
        select a."tenantId", a."keyId", a.action, a.target
        from jsonb_to_record(p_audit) as a ("tenantId" text, "keyId" uuid, action text, target text)
        where p_audit is not null;
      return jsonb_build_object('sessionId', v_session, 'eventSeq', v_last);
    end $$`.execute(db);
}

export async function down(db: Kysely<unknown>): Promise<void> {
  for (const name of ['baton_cancel_claimed', 'baton_mark_cancelling', 'baton_still_ran']) {
    await sql`drop function ${sql.ref(name)}`.execute(db);
  }
}
