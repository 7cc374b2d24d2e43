-- Ends runs that wait for answers, and returns those that ended, each with the job of the run that follows it. p_cancels
-- has for each run its open calls with the outcome of each, the events and usage of its end, and the id of a run that may
-- follow. A run is left as it is, and cancelled by itself, if its open calls are others by now, one was answered or has
-- begun work elsewhere, or if another transaction has locked its session.
--
-- Called by cancelWaiting (src/store/changes/tree-cancels.ts).
--
-- Locks: session and run of one after another, in the order of the runs' ids, as heartbeats and grouped writes lock them.
-- No session is waited for.
create or replace function baton_cancel_waiting(p_cancels jsonb, p_end jsonb) returns jsonb language plpgsql as $$
declare
  c_settled constant text[] := array['completed', 'error', 'denied'];
  v_run uuid;
  v_session uuid;
  v_calls jsonb;
  v_finish jsonb;
  v_next_run uuid;
  v_written record;
  v_follow_up jsonb;
  v_ended jsonb := '[]';
begin
  for v_run, v_session, v_calls, v_finish, v_next_run in
    select "runId", "sessionId", calls, finish, "nextRunId" from jsonb_to_recordset(p_cancels)
      as c ("runId" uuid, "sessionId" uuid, calls jsonb, finish jsonb, "nextRunId" uuid) order by "runId"
  loop
    perform 1 from sessions where id = v_session and active_run_id = v_run for no key update skip locked;
    continue when not found;
    perform 1 from runs where id = v_run and status = 'requires_action' and cancel_requested_at is null
      for no key update;
    continue when not found;
    continue when exists (select 1 from compactions where session_id = v_session and state = 'running');
    continue when (
      select count(*) <> jsonb_array_length(v_calls)
        or coalesce(bool_or(p.answer is not null or p.outside_work is not null or p.state is distinct from call ->> 'was'), false)
      from messages m join parts p on p.session_id = m.session_id and p.message_id = m.id
        left join jsonb_array_elements(v_calls) as given (call)
          on (call ->> 'messageId')::uuid = p.message_id and (call ->> 'index')::integer = p.idx
      where m.run_id = v_run and p.state <> all (c_settled));
    update runs set cancel_requested_at = clock_timestamp(),
      cancel_inbox_seq = (select inbox_seq from sessions where id = v_session) where id = v_run;
    update parts set state = call ->> 'state', content = content || jsonb_build_object('output', call -> 'output'),
      finished_at = clock_timestamp()
      -- `offset 0` as in baton_take_branch.
      from (select v_session as id, call from jsonb_array_elements(v_calls) as e (call) offset 0) as closed
      where session_id = closed.id and message_id = (call ->> 'messageId')::uuid
        and idx = (call ->> 'index')::integer;
    v_written := baton_write_branch(v_run, p_end, v_finish);
    v_follow_up := baton_follow_run_end(v_run, v_next_run);
    v_ended := v_ended || jsonb_build_object('runId', v_run, 'sessionId', v_session,
      'eventSeq', coalesce((v_follow_up -> 'eventSeq'), to_jsonb(v_written.last_event_seq)), 'job', v_follow_up -> 'job');
  end loop;
  return v_ended;
end $$;
