-- Ends a promised run before it begins, parks the messages that waited for it, and returns the number of the event. A
-- resume that the run was promised to is dropped with it.
--
-- Called by cancelPromised (src/store/changes/cancels.ts).
--
-- Lock: the caller holds the session.
create or replace function baton_cancel_promised(p_session uuid, p_run uuid) returns bigint language plpgsql as $$
declare
  v_run runs;
begin
  insert into runs (id, tenant_id, session_id, status, cancel_requested_at, cancel_inbox_seq, finished_at)
    select p_run, tenant_id, id, 'cancelled', clock_timestamp(), inbox_seq, clock_timestamp()
    from sessions where id = p_session returning * into v_run;
  update sessions set next_run_id = null, requested_resume = null where id = p_session;
  update inbox set run_id = p_run
    where session_id = p_session and consumed_message_seq is null and run_id is null;
  perform baton_write_deliveries(v_run);
  perform baton_end_child(v_run);
  return baton_append_events(p_session, p_run, jsonb_build_array(jsonb_build_object(
    'type', 'run:cancelled', 'data', jsonb_build_object('runId', baton_public_id('run', p_run), 'stillRan', '[]'::jsonb))));
end $$;
