-- Writes a child for each call that begins or continues a session of another agent. Each gets an equal share of what the
-- run has left, so that together they use no more than that; one step is kept for the run itself. A call without a
-- share is refused: it has its result at once. More than max_parallel of a tool wait for one that has ended.
--
-- Called by baton_take_branch.
--
-- Lock: the caller holds the session and the run, and passes the run as it is after the step.
create or replace function baton_ask_children(p_run runs, p_calls jsonb) returns void language plpgsql as $$
declare
  v_call jsonb;
  v_child jsonb;
  v_count integer;
  v_reserved record;
  v_steps bigint;
  v_tokens bigint;
  v_cost double precision;
  v_used_up text;
  v_active integer;
begin
  select count(*) into v_count from jsonb_array_elements(p_calls) as call where call -> 'child' is not null;
  if v_count = 0 then return; end if;
  select coalesce(sum((limits ->> 'maxSteps')::bigint), 0) as steps,
      coalesce(sum((limits ->> 'maxTokens')::bigint), 0) as tokens,
      coalesce(sum((limits ->> 'maxCostUsd')::double precision), 0) as cost
    into v_reserved from children
    where parent_run_id = p_run.id and state in ('held', 'asked', 'running', 'ended');
  v_steps := floor((p_run.max_steps - p_run.step_count - p_run.children_steps - v_reserved.steps - 1) / v_count);
  v_tokens := floor((p_run.budget_tokens - p_run.input_tokens - p_run.output_tokens - p_run.children_tokens
    - v_reserved.tokens) / v_count);
  -- An unknown cost may have used up the budget.
  v_cost := case when p_run.budget_cost_usd is not null then
    coalesce((p_run.budget_cost_usd - p_run.cost_usd - p_run.children_cost_usd - v_reserved.cost) / v_count, 0) end;
  v_used_up := case
    when v_steps < 1 then 'maxSteps'
    when v_tokens < 1 then 'maxTokens'
    when v_cost <= 0 then 'maxCostUsd' end;
  for v_call in
    select call from jsonb_array_elements(p_calls) with ordinality as e (call, ord)
    where call -> 'child' is not null order by ord
  loop
    v_child := v_call -> 'child';
    select count(*) into v_active from children
      where parent_session_id = p_run.session_id and state in ('asked', 'running')
        and tool_name = v_child ->> 'toolName';
    insert into children (message_id, idx, tenant_id, parent_session_id, parent_run_id, tool_name, agent_name, mode,
        limits, max_parallel, session_id, run_id, state, result, due_at)
      values ((v_call ->> 'messageId')::uuid, (v_call ->> 'index')::integer, p_run.tenant_id, p_run.session_id, p_run.id,
        v_child ->> 'toolName', v_child ->> 'agent', v_child ->> 'mode',
        case when v_used_up is null then jsonb_strip_nulls(v_child -> 'limits' || jsonb_build_object(
          'maxSteps', least((v_child -> 'limits' ->> 'maxSteps')::bigint, v_steps),
          'maxTokens', least((v_child -> 'limits' ->> 'maxTokens')::bigint, v_tokens),
          'maxCostUsd', least((v_child -> 'limits' ->> 'maxCostUsd')::double precision, v_cost))) else '{}' end,
        (v_child ->> 'maxParallel')::integer, (v_child ->> 'sessionId')::uuid, (v_child ->> 'runId')::uuid,
        case
          when v_used_up is not null then 'ended'
          when v_active >= (v_child ->> 'maxParallel')::integer then 'held'
          else 'asked' end,
        case when v_used_up is not null then jsonb_build_object('status', 'refused',
          'error', jsonb_build_object('code', 'limit_exceeded', 'message',
            'limits.' || v_used_up || ': the run has nothing of it left for a child. Do the rest without one.'),
          'steps', 0, 'tokens', 0, 'costUsd', 0) end,
        case when v_used_up is not null or v_active < (v_child ->> 'maxParallel')::integer then clock_timestamp() end)
      on conflict do nothing;
  end loop;
  update runs set children_count = children_count + v_count where id = p_run.id;
end $$;
