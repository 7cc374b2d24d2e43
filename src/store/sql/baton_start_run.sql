-- Starts a run and returns the number of its event. A task run takes all messages that wait, and clears the run id
-- that their senders or the one who resumed the session were promised. A compaction or prune that was requested
-- goes before its first step.
--
-- Called by startRun (src/store/session/start-run.ts) and baton_follow_run_end.
--
-- Lock: the caller holds the session and has seen that no run is active.
create or replace function baton_start_run(
  p_session uuid, p_run uuid, p_kind text, p_traceparent text, p_pending text default 'step',
  p_limits jsonb default '{}', p_lowered jsonb default '{}', p_resumes boolean default false
) returns bigint language plpgsql as $$
declare
  v_session sessions;
  v_pending text;
begin
  select * into v_session from sessions where id = p_session;
  v_pending := case when p_pending = 'step' then coalesce(v_session.requested_maintenance, 'step') else p_pending end;
  insert into runs (id, tenant_id, session_id, kind, pending_kind, pending_at, start_inbox_seq, traceparent)
    values (p_run, v_session.tenant_id, p_session, p_kind, v_pending, clock_timestamp(), v_session.inbox_seq,
      coalesce(case when p_kind = 'task' then v_session.requested_resume ->> 'traceparent' end, p_traceparent));
  if p_kind = 'task' then
    perform baton_limit_run(p_session, p_run, coalesce(v_session.requested_resume -> 'limits', '{}') || p_limits,
      coalesce(v_session.requested_resume -> 'lowered', '{}') || p_lowered, p_resumes or v_session.requested_resume is not null);
  end if;
  if v_pending <> p_pending then perform baton_take_requested(p_session); end if;
  -- A task run drops the order of a compaction or prune that was cancelled before it began.
  update sessions set status = 'busy', active_run_id = p_run,
    words_due_at = coalesce(words_due_at, clock_timestamp() + interval '30 seconds'),
    next_run_id = case when p_kind = 'task' then null else next_run_id end,
    requested_resume = case when p_kind = 'task' then null else requested_resume end,
    context_state = case when v_pending = 'step' then context_state - 'pending' else context_state end
      -- The limit of compactions without a step between them holds within one run: a new one starts from zero.
      - case when p_kind = 'task' then 'compactionsSinceStep' else '' end
    where id = p_session;
  if p_kind = 'task' then
    update inbox set run_id = p_run where session_id = p_session and consumed_message_seq is null;
  end if;
  return baton_append_events(p_session, p_run, jsonb_build_array(jsonb_build_object(
    'type', 'run:queued', 'data', jsonb_build_object('runId', baton_public_id('run', p_run)))));
end $$;
