-- Writes a child for each call that begins or continues a session of another agent. One after the other gets an equal
-- share of what the run has left for it and those after it, but at least one step and one token, so that together they
-- use no more than the run has left; one step is kept for the run itself. Once nothing is left, the calls after that are
-- refused: they have their results at once. More than max_parallel of a tool wait for one that has ended.
--
-- Called by baton_take_branch.
--
-- Lock: the caller holds the session and the run, and passes the run as it is after the step.
create or replace function baton_ask_children(p_run runs, p_calls jsonb) returns void language plpgsql as $$
declare
  v_call jsonb;
  v_child jsonb;
  v_count integer;
  v_after integer;
  v_reserved record;
  v_steps bigint;
  v_tokens bigint;
  v_cost double precision;
  v_limits jsonb;
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
  v_steps := p_run.max_steps - p_run.step_count - p_run.children_steps - v_reserved.steps - 1;
  v_tokens := p_run.budget_tokens - p_run.input_tokens - p_run.output_tokens - p_run.children_tokens
    - v_reserved.tokens;
  -- An unknown cost may have used up the budget.
  v_cost := case when p_run.budget_cost_usd is not null then
    coalesce(p_run.budget_cost_usd - p_run.cost_usd - p_run.children_cost_usd - v_reserved.cost, 0) end;
  v_after := v_count;
  for v_call in
    select call from jsonb_array_elements(p_calls) with ordinality as e (call, ord)
    where call -> 'child' is not null order by ord
  loop
    v_child := v_call -> 'child';
    v_used_up := case
      when v_steps < 1 then 'maxSteps'
      when v_tokens < 1 then 'maxTokens'
      when v_cost <= 0 then 'maxCostUsd' end;
    v_limits := '{}';
    if v_used_up is null then
      v_limits := jsonb_strip_nulls(v_child -> 'limits' || jsonb_build_object(
        'maxSteps', least((v_child -> 'limits' ->> 'maxSteps')::bigint,
          case v_steps / v_after when 0 then 1 else v_steps / v_after end),
        'maxTokens', least((v_child -> 'limits' ->> 'maxTokens')::bigint,
          case v_tokens / v_after when 0 then 1 else v_tokens / v_after end),
        'maxCostUsd', least((v_child -> 'limits' ->> 'maxCostUsd')::double precision, v_cost / v_after)));
      v_steps := v_steps - (v_limits ->> 'maxSteps')::bigint;
      v_tokens := v_tokens - (v_limits ->> 'maxTokens')::bigint;
      v_cost := v_cost - (v_limits ->> 'maxCostUsd')::double precision;
    end if;
    v_after := v_after - 1;
    select count(*) into v_active from children
      where parent_session_id = p_run.session_id and state in ('asked', 'running')
        and tool_name = v_child ->> 'toolName';
    insert into children (parent_session_id, message_id, idx, tenant_id, parent_run_id, tool_name, agent_name, mode,
        limits, max_parallel, session_id, run_id, state, result, due_at)
      values (p_run.session_id, (v_call ->> 'messageId')::uuid, (v_call ->> 'index')::integer, p_run.tenant_id, p_run.id,
        v_child ->> 'toolName', v_child ->> 'agent', v_child ->> 'mode', v_limits,
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
