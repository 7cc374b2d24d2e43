-- Writes a branch of a plan: the run goes on with a next job, waits for a required action, or ends. Usage, events and
-- the session's state are written with it. No worker has the run afterwards, unless p_carry is set: then the same
-- worker has it under a new claim. If nothing waits in the inbox and the run is within its limits, the next step's
-- message is opened by the same statements (`opened_seq`). Returns the run and the number of the session's last event.
--
-- Called by baton_take_branch, by baton_cancel_waiting, and by endRun (src/store/session/end-run.ts) for a run that ends outside
-- a step.
--
-- Lock: the caller holds the session and the run.
create or replace function baton_write_branch(p_run uuid, p_branch jsonb, p_finish jsonb, p_carry jsonb default null,
  p_waiting boolean default false, out run runs, out last_event_seq bigint, out opened_seq bigint)
language plpgsql as $$
declare
  v_kind text := p_branch ->> 'kind';
  v_events jsonb := (p_finish -> 'events') || (p_branch -> 'events');
  v_usage jsonb := p_finish -> 'usage';
  -- Null where the price of the model is unknown; the sum is unknown from then on.
  v_cost double precision := (p_finish ->> 'costUsd')::double precision;
  v_claim uuid := (p_carry ->> 'claimId')::uuid;
  v_lease interval := make_interval(secs => (p_carry ->> 'leaseMs')::integer / 1000.0);
  v_opens boolean;
  v_delegates boolean := coalesce((p_branch ->> 'isDelegating')::boolean, false);
  v_parent uuid;
  v_view_start bigint;
  v_summary bigint;
begin
  if p_branch ->> 'status' = 'cancelled' then
    v_events := v_events || jsonb_build_object('type', 'run:cancelled', 'data', jsonb_build_object(
      'runId', baton_public_id('run', p_run), 'stillRan', baton_still_ran(p_run)));
  end if;

  update runs set
    status = case v_kind when 'end' then p_branch ->> 'status' when 'wait' then 'requires_action' else status end,
    status_reason = coalesce(p_branch ->> 'reason', status_reason),
    error = coalesce(p_branch -> 'error', error),
    pending_kind = p_branch ->> 'pendingKind',
    -- BullMQ ignores a job id that it still knows, and a run comes back to the same step after a compaction: a new id.
    pending_dispatch = pending_dispatch + 1,
    attempt = case
      when v_kind = 'retry' then attempt + 1
      when v_kind = 'wait' then attempt
      when (p_branch ->> 'pendingNo')::integer = pending_no then attempt
      else 1 end,
    pending_no = coalesce((p_branch ->> 'pendingNo')::integer, pending_no),
    pending_at = clock_timestamp() + make_interval(secs => coalesce((p_branch ->> 'delayMs')::integer, 0) / 1000.0),
    next_check_at = null,
    throttled_at = null,
    -- The run does not wait beyond its deadline.
    approval_expires_at = case when v_kind = 'wait' then least(
      clock_timestamp() + make_interval(secs => (p_branch ->> 'waitMs')::bigint / 1000.0), deadline_at) end,
    is_delegating = v_delegates,
    epoch = epoch + 1,
    claim_id = v_claim,
    lease_owner = case when v_claim is not null then lease_owner end,
    -- Heartbeats renew the lease. Renewed by each step, it would make each touch the indexes.
    lease_expires_at = case
      when v_claim is null then null
      when lease_expires_at > clock_timestamp() + v_lease / 2 then lease_expires_at
      else clock_timestamp() + v_lease end,
    resume_count = case when v_kind = 'retry' then resume_count else 0 end,
    step_count = step_count + coalesce((p_finish ->> 'steps')::integer, 0),
    input_tokens = input_tokens + (v_usage ->> 'inputTokens')::bigint,
    output_tokens = output_tokens + (v_usage ->> 'outputTokens')::bigint,
    reasoning_tokens = reasoning_tokens + (v_usage ->> 'reasoningTokens')::bigint,
    cache_read_tokens = cache_read_tokens + (v_usage ->> 'cacheReadTokens')::bigint,
    cache_write_tokens = cache_write_tokens + (v_usage ->> 'cacheWriteTokens')::bigint,
    cost_usd = cost_usd + v_cost,
    -- The trace of the next attempt links to this one.
    attempt_traceparent = case when v_kind = 'retry' then attempt_traceparent end,
    final_answer_for = case when v_kind = 'final_answer' then p_branch ->> 'limit' else final_answer_for end,
    final_answer_until = case when v_kind = 'final_answer'
      then clock_timestamp() + make_interval(secs => (p_branch ->> 'withinMs')::integer / 1000.0)
      else final_answer_until end,
    model_position = coalesce((p_branch ->> 'modelPosition')::integer, model_position),
    output_state = coalesce(p_branch -> 'outputState', output_state),
    output = coalesce(p_branch -> 'result', output),
    finished_at = case when v_kind = 'end' then clock_timestamp() end
    where id = p_run returning * into run;
  -- The time of the next attempt is by the clock of Postgres, not by that of the worker.
  if v_kind in ('retry', 'postpone') then
    v_events := v_events || jsonb_build_object('type', 'step:retrying', 'data',
      (p_branch -> 'retrying') || jsonb_build_object('nextAttemptAt',
        to_char(run.pending_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')));
  end if;
  v_opens := v_claim is not null and not p_waiting and not baton_is_used_up(run);
  if v_opens then v_events := v_events || baton_step_started(run, (p_carry ->> 'messageId')::uuid); end if;
  -- One update for everything that the end of a step changes of its session: the row is wide.
  update sessions set
    epoch = epoch + 1,
    message_seq = message_seq + v_opens::integer,
    event_seq = event_seq + jsonb_array_length(v_events),
    updated_at = clock_timestamp(),
    context_state = coalesce(p_finish -> 'contextState', context_state),
    status = case v_kind when 'end' then 'idle' when 'wait' then
      case when v_delegates then 'busy' else 'requires_action' end else status end,
    active_run_id = case when v_kind = 'end' then null else active_run_id end,
    words_due_at = case when v_kind in ('end', 'wait') then clock_timestamp() else words_due_at end,
    input_tokens = input_tokens + (v_usage ->> 'inputTokens')::bigint,
    output_tokens = output_tokens + (v_usage ->> 'outputTokens')::bigint,
    reasoning_tokens = reasoning_tokens + (v_usage ->> 'reasoningTokens')::bigint,
    cache_read_tokens = cache_read_tokens + (v_usage ->> 'cacheReadTokens')::bigint,
    cache_write_tokens = cache_write_tokens + (v_usage ->> 'cacheWriteTokens')::bigint,
    cost_usd = cost_usd + v_cost,
    step_count = step_count + coalesce((p_finish ->> 'steps')::integer, 0)
    where id = run.session_id
    returning event_seq, case when v_opens then message_seq end, view_start_seq, summary_message_seq,
      parent_session_id
      into last_event_seq, opened_seq, v_view_start, v_summary, v_parent;
  if v_opens then
    perform baton_open_message(run, (p_carry ->> 'messageId')::uuid, opened_seq, last_event_seq, v_view_start,
      v_summary);
  end if;
  perform baton_insert_events(run.session_id, run.tenant_id, p_run, last_event_seq, v_events);
  if v_kind not in ('end', 'wait') then return; end if;
  if not v_delegates then perform baton_write_deliveries(run); end if;
  if v_kind = 'end' and run.children_count > 0 then
    perform baton_stop_children(p_run, run.status in ('cancelled', 'failed'));
  end if;
  if v_parent is null or run.kind <> 'task' then return; end if;
  if v_kind = 'end' then
    perform baton_end_child(run);
  elsif not v_delegates then
    update children set due_at = clock_timestamp(), asks = (select count(*) from jsonb_array_elements(p_branch -> 'calls') as call
        where call ->> 'requiredAction' <> 'child')
      where run_id = p_run and state = 'running';
  end if;
end $$;
