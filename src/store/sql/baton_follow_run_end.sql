-- Decides what follows the end of a run: a run for the queued messages, else a maintenance run, else nothing. Returns
-- the job of the new run and the number of its event; null: nothing follows. p_fresh_id is the id of the new run,
-- unless one is promised to it. p_maintenance is work that the end itself asks for; a request through the API goes
-- before it.
--
-- Called by baton_take_branch, baton_cancel_waiting and followRunEnd (src/store/session/start-run.ts).
--
-- Lock: the caller holds the session, has ended the run and has made the session idle.
create or replace function baton_follow_run_end(p_run uuid, p_fresh_id uuid, p_maintenance text default null)
returns jsonb language plpgsql as $$
declare
  v_run runs;
  v_session uuid;
  v_inbox_seq bigint;
  v_promised uuid;
  v_resumes boolean;
  v_requested text;
  v_parked_upto bigint;
  v_next uuid := p_fresh_id;
  v_last bigint;
begin
  select * into v_run from runs where id = p_run;
  v_session := v_run.session_id;
  select inbox_seq, next_run_id, requested_resume is not null, requested_maintenance
    into v_inbox_seq, v_promised, v_resumes, v_requested from sessions where id = v_session;

  -- Messages up to this number are parked. Later ones were accepted after the cancel, or during a maintenance run, so
  -- the run that ends here was not meant for them.
  v_parked_upto := case
    when v_run.cancel_requested_at is not null then v_run.cancel_inbox_seq
    when v_run.kind = 'maintenance' then v_run.start_inbox_seq
    when v_run.status = 'failed' then v_inbox_seq
    when v_run.status_reason = 'context_exhausted' then v_inbox_seq
    else 0 end;

  if v_resumes or exists (
    -- A message of another run is parked since that one was cancelled before it began.
    select 1 from inbox where session_id = v_session and consumed_message_seq is null
      and (run_id is null or run_id = p_run) and seq > v_parked_upto
  ) then
    v_next := coalesce(v_promised, p_fresh_id);
    -- The trace of the new run continues that of the first message it answers, if that has one.
    v_last := baton_start_run(v_session, v_next, 'task', coalesce((
      select traceparent from inbox where session_id = v_session and consumed_message_seq is null
        and traceparent is not null order by seq limit 1), v_run.traceparent));
  elsif v_requested is not null then
    perform baton_take_requested(v_session);
    v_last := baton_start_run(v_session, v_next, 'maintenance', v_run.traceparent, v_requested);
  elsif p_maintenance is not null then
    v_last := baton_start_run(v_session, v_next, 'maintenance', v_run.traceparent, p_maintenance);
  else
    return null;
  end if;
  return jsonb_build_object('job', baton_job_of(v_next), 'eventSeq', v_last);
end $$;
