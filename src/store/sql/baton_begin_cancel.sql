-- Makes a run `cancelling` and returns the number of the event. With p_parks, messages that were accepted before the
-- cancel stay in the inbox.
--
-- Called by beginCancel (src/store/changes/cancels.ts) and baton_mark_cancelling.
--
-- Lock: the caller holds the session and the run.
create or replace function baton_begin_cancel(p_session uuid, p_run uuid, p_parks boolean) returns bigint
language plpgsql as $$
declare
  v_children integer;
begin
  update runs set status = 'cancelling', cancel_requested_at = clock_timestamp(), throttled_at = null,
    cancel_inbox_seq = case when p_parks then (select inbox_seq from sessions where id = p_session) else 0 end
    where id = p_run returning children_count into v_children;
  if v_children > 0 then perform baton_stop_children(p_run, true); end if;
  return baton_append_events(p_session, p_run, jsonb_build_array(
    jsonb_build_object('type', 'run:cancelling', 'data', jsonb_build_object('runId', baton_public_id('run', p_run)))));
end $$;
