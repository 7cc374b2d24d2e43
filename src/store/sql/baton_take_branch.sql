-- Ends a job with the branch that holds: the worker has planned one for a cancel, one for messages that wait, and
-- one for neither; only the lock tells which. A compaction or prune that was requested goes before the next step;
-- where the run has its final answer left, it waits for the end. A run that waits for a required action has no job and
-- no claim. With `carryOn`, a plan that goes on with a step goes on under a new claim of the same worker, and the reply
-- has what a claim would return. Returns the jobs to enqueue.
--
-- Called by baton_finish_step and baton_finish_maintenance.
--
-- Lock: the caller holds the session and the run, and passes the run as it is under them. The inbox is read by a
-- statement after the locks: a message that was accepted while this transaction waited is seen.
create or replace function baton_take_branch(p_run runs, p_finish jsonb) returns json
language plpgsql as $$
declare
  v_session uuid := p_run.session_id;
  v_requested text;
  v_waiting boolean;
  v_takes boolean;
  v_carry jsonb;
  v_claimed json;
  v_branch_name text;
  v_branch jsonb;
  v_kind text;
  v_written record;
  v_jobs jsonb := '[]';
  v_follow_up jsonb;
  v_last bigint;
begin
  select requested_maintenance, exists (select 1 from inbox
    where session_id = v_session and consumed_message_seq is null and run_id is not distinct from p_run.id)
    into v_requested, v_waiting from sessions where id = v_session;
  v_branch_name := case
    when p_run.cancel_requested_at is not null then 'ifCancelled'
    when v_waiting then 'ifMessagesWait'
    else 'otherwise' end;
  v_branch := p_finish -> 'next' -> v_branch_name;
  v_kind := v_branch ->> 'kind';
  if jsonb_array_length(v_branch -> 'calls') > 0 then
    update parts set
      state = call ->> 'state',
      required_action = call ->> 'requiredAction',
      answer = null,
      content = case when v_kind in ('wait', 'settle') then content
        else content || jsonb_build_object('output', call -> 'output') end,
      finished_at = case when v_kind not in ('wait', 'settle') then clock_timestamp() end
      -- `offset 0` hides from the planner that all are of one session: it would read all parts of that, however many.
      from (select v_session as id, call from jsonb_array_elements(v_branch -> 'calls') as e (call) offset 0) as changed
      where session_id = changed.id and message_id = (call ->> 'messageId')::uuid
        and idx = (call ->> 'index')::integer;
  end if;
  v_takes := v_kind in ('continue', 'postpone') and v_branch ->> 'pendingKind' = 'step' and v_requested is not null
    and p_run.final_answer_for is null;
  if v_takes then v_branch := v_branch || jsonb_build_object('pendingKind', v_requested); end if;
  if v_kind = 'continue' and v_branch ->> 'pendingKind' = 'step' and p_finish -> 'carryOn' is not null
    and baton_may_carry_on(p_run, p_finish -> 'carryOn') then v_carry := p_finish -> 'carryOn'; end if;
  v_written := baton_write_branch(p_run.id, v_branch, p_finish, v_carry, v_waiting);
  if v_kind = 'wait' then perform baton_ask_children(v_written.run, v_branch -> 'calls'); end if;
  if v_takes then perform baton_take_requested(v_session); end if;
  v_last := v_written.last_event_seq;
  if v_kind = 'end' then
    v_follow_up := baton_follow_run_end(p_run.id, (p_finish ->> 'nextRunId')::uuid, p_finish ->> 'maintenanceAtEnd');
    v_last := coalesce((v_follow_up ->> 'eventSeq')::bigint, v_last);
    if v_follow_up is not null then v_jobs := jsonb_build_array(v_follow_up -> 'job'); end if;
  elsif v_kind <> 'wait' then
    v_jobs := jsonb_build_array(baton_pending_job(v_written.run));
  end if;
  if v_carry is not null then
    v_claimed := baton_carry_on(v_written.run, v_carry, v_written.opened_seq, v_last);
    v_last := (v_claimed ->> 'eventSeq')::bigint;
  end if;
  return json_build_object('branch', v_branch_name, 'eventSeq', v_last, 'jobs', v_jobs, 'claimed', v_claimed);
end $$;
