-- Ends a job with the branch that holds: the worker has planned one for a cancel, one for messages that wait, and
-- one for neither; only the lock tells which. A compaction or prune that was requested goes before the next step;
-- where the run ends or has its final answer left, it gets a run of its own. A run that waits for a required action
-- has no job and no claim. Returns the jobs to enqueue.
--
-- Called by baton_finish_step and baton_finish_maintenance.
--
-- Lock: the caller holds the session and the run, and passes the run as it is under them. The inbox is read by a
-- statement after the locks: a message that was accepted while this transaction waited is seen.
create or replace function baton_take_branch(p_run runs, p_finish jsonb) returns jsonb
language plpgsql as $$
declare
  v_run runs := p_run;
  v_session uuid := p_run.session_id;
  v_requested text;
  v_waiting boolean;
  v_takes boolean;
  v_events jsonb;
  v_branch_name text;
  v_branch jsonb;
  v_kind text;
  v_usage jsonb := p_finish -> 'usage';
  -- Null where the price of the model is unknown; the sum is unknown from then on.
  v_cost double precision := (p_finish ->> 'costUsd')::double precision;
  v_jobs jsonb := '[]';
  v_next_run uuid;
  v_after bigint;
  v_last bigint;
begin
  select requested_maintenance, exists (select 1 from inbox
    where session_id = v_session and consumed_message_seq is null and run_id is not distinct from p_run.id)
    into v_requested, v_waiting from sessions where id = v_session;
  v_branch_name := case
    when v_run.cancel_requested_at is not null then 'ifCancelled'
    when v_waiting then 'ifMessagesWait'
    else 'otherwise' end;
  v_branch := p_finish -> 'next' -> v_branch_name;
  if v_branch ? 'calls' then
    update parts set
      state = call ->> 'state',
      required_action = call ->> 'requiredAction',
      answer = null,
      content = case when call ? 'output' then content || jsonb_build_object('output', call -> 'output') else content end,
      finished_at = case when call ? 'output' then clock_timestamp() end
      from jsonb_array_elements(v_branch -> 'calls') as changed (call)
      where message_id = (call ->> 'messageId')::uuid and idx = (call ->> 'index')::integer and session_id = v_session;
  end if;
  v_kind := v_branch ->> 'pendingKind';
  v_takes := v_kind = 'step' and v_requested is not null and not v_branch ? 'retryDelayMs'
    and not v_branch ? 'finalAnswer' and v_run.final_answer_for is null;
  if v_takes then v_kind := v_requested; end if;
  v_events := (p_finish -> 'events') || (v_branch -> 'events');
  if v_branch ->> 'status' = 'cancelled' then v_events := jsonb_set(v_events, '{-1,data,stillRan}', baton_still_ran(p_run.id)); end if;

  update runs set
    status = coalesce(v_branch ->> 'status', case when v_branch ? 'waitMs' then 'requires_action' end, status),
    status_reason = coalesce(v_branch ->> 'reason', status_reason),
    error = coalesce(v_branch -> 'error', error),
    pending_kind = v_kind,
    -- BullMQ ignores a job id that it still knows, and a run comes back to the same step after a compaction: a new id.
    pending_dispatch = pending_dispatch + 1,
    attempt = case
      when v_branch ? 'retryDelayMs' then attempt + 1
      when v_branch ? 'waitMs' then attempt
      when (v_branch ->> 'pendingNo')::integer = pending_no then attempt
      else 1 end,
    pending_no = coalesce((v_branch ->> 'pendingNo')::integer, pending_no),
    pending_at = clock_timestamp()
      + make_interval(secs => coalesce((v_branch ->> 'retryDelayMs')::integer, (v_branch ->> 'postponeMs')::integer, 0) / 1000.0),
    next_check_at = null,
    -- The run does not wait beyond its deadline.
    approval_expires_at = case when v_branch ? 'waitMs' then least(
      clock_timestamp() + make_interval(secs => (v_branch ->> 'waitMs')::bigint / 1000.0), deadline_at) end,
    epoch = epoch + 1,
    claim_id = null,
    lease_owner = null,
    lease_expires_at = null,
    resume_count = case when v_branch ? 'retryDelayMs' then resume_count else 0 end,
    step_count = step_count + coalesce((p_finish ->> 'steps')::integer, 0),
    input_tokens = input_tokens + (v_usage ->> 'inputTokens')::bigint,
    output_tokens = output_tokens + (v_usage ->> 'outputTokens')::bigint,
    reasoning_tokens = reasoning_tokens + (v_usage ->> 'reasoningTokens')::bigint,
    cache_read_tokens = cache_read_tokens + (v_usage ->> 'cacheReadTokens')::bigint,
    cache_write_tokens = cache_write_tokens + (v_usage ->> 'cacheWriteTokens')::bigint,
    cost_usd = cost_usd + v_cost,
    -- The trace of the next attempt links to this one.
    attempt_traceparent = case when v_branch ? 'retryDelayMs' then attempt_traceparent end,
    final_answer_for = coalesce(v_branch -> 'finalAnswer' ->> 'for', final_answer_for),
    final_answer_until = case when v_branch ? 'finalAnswer'
      then clock_timestamp() + make_interval(secs => (v_branch -> 'finalAnswer' ->> 'withinMs')::integer / 1000.0)
      else final_answer_until end,
    finished_at = case when v_branch ? 'status' then clock_timestamp() end
    where id = p_run.id returning * into v_run;
  -- The time of the next attempt is by the clock of Postgres, not by that of the worker.
  if v_events #>> '{-1,type}' = 'step:retrying' then
    v_events := jsonb_set(v_events, '{-1,data,nextAttemptAt}',
      to_jsonb(to_char(v_run.pending_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')));
  end if;
  -- One update for everything that the end of a step changes of its session: the row is wide.
  update sessions set
    epoch = epoch + 1,
    event_seq = event_seq + jsonb_array_length(v_events),
    updated_at = clock_timestamp(),
    context_state = coalesce(p_finish -> 'contextState', context_state)
      || case when v_takes then baton_requested_state() else '{}' end,
    requested_maintenance = case when v_takes then null else requested_maintenance end,
    status = case when v_branch ? 'status' then 'idle' when v_branch ? 'waitMs' then 'requires_action' else status end,
    active_run_id = case when v_branch ? 'status' then null else active_run_id end,
    input_tokens = input_tokens + (v_usage ->> 'inputTokens')::bigint,
    output_tokens = output_tokens + (v_usage ->> 'outputTokens')::bigint,
    reasoning_tokens = reasoning_tokens + (v_usage ->> 'reasoningTokens')::bigint,
    cache_read_tokens = cache_read_tokens + (v_usage ->> 'cacheReadTokens')::bigint,
    cache_write_tokens = cache_write_tokens + (v_usage ->> 'cacheWriteTokens')::bigint,
    cost_usd = cost_usd + v_cost
    where id = v_session returning event_seq, requested_maintenance into v_last, v_requested;
  perform baton_insert_events(v_session, v_run.tenant_id, p_run.id, v_last, v_events);

  -- A message that was sent after a cancel, or during a compaction or prune, was not meant for the run that ends here.
  v_after := case
    when v_run.kind = 'maintenance' and v_run.cancel_requested_at is null then v_run.start_inbox_seq
    when v_branch ? 'takesUpWaiting' then 0
    else v_run.cancel_inbox_seq end;
  if v_kind is not null then
    v_jobs := jsonb_build_array(baton_pending_job(v_run));
  elsif v_branch ? 'waitMs' then
    null;
  elsif exists (select 1 from sessions where id = v_session and requested_resume is not null) or exists (
    select 1 from inbox where session_id = v_session and consumed_message_seq is null
      and (run_id is null or run_id = p_run.id) and seq > v_after
  ) then
    select coalesce(next_run_id, (p_finish ->> 'nextRunId')::uuid) into v_next_run from sessions where id = v_session;
    -- The trace of the new run continues that of the first message it answers, if that has one.
    v_last := baton_start_run(v_session, v_next_run, 'task', coalesce((
      select traceparent from inbox where session_id = v_session and consumed_message_seq is null
        and traceparent is not null order by seq limit 1), v_run.traceparent));
    v_jobs := jsonb_build_array(baton_job_of(v_next_run));
  elsif v_requested is not null or p_finish ? 'maintenanceAtEnd' then
    v_next_run := (p_finish ->> 'nextRunId')::uuid;
    if v_requested is not null then perform baton_take_requested(v_session); end if;
    v_requested := coalesce(v_requested, p_finish ->> 'maintenanceAtEnd');
    v_last := baton_start_run(v_session, v_next_run, 'maintenance', v_run.traceparent, v_requested);
    v_jobs := jsonb_build_array(baton_job_of(v_next_run));
  end if;
  return jsonb_build_object('branch', v_branch_name, 'eventSeq', v_last, 'jobs', v_jobs);
end $$;
