-- Facts about a claimed run and its session that the worker gets.
--
-- Called by baton_claim_run and baton_carry_on.
create or replace function baton_claim_facts(p_session sessions, p_run runs) returns json language plpgsql stable as $$
begin
  return json_build_object(
    'modelMemory', baton_model_memory(coalesce(
      case when p_run.model_position > 0 then p_session.agent_snapshot -> 'fallbacks' ->> (p_run.model_position - 1) end,
      p_session.agent_snapshot ->> 'model'), p_session.tenant_id),
    'session', json_build_object('id', p_session.id, 'tenantId', p_session.tenant_id,
      'agentName', p_session.agent_name, 'agentSnapshot', p_session.agent_snapshot,
      'contextState', p_session.context_state),
    'run', json_build_object('id', p_run.id, 'kind', p_run.kind, 'attempt', p_run.attempt,
      -- A run with a limit of steps shares it with its children.
      'stepCount', p_run.step_count + case when p_run.max_steps is null then 0 else p_run.children_steps end,
      'isChild', p_session.parent_session_id is not null,
      'modelPosition', p_run.model_position,
      'maxSteps', p_run.max_steps, 'budget', json_build_object(
        'maxTokens', p_run.budget_tokens, 'maxCostUsd', p_run.budget_cost_usd,
        'usedTokens', p_run.input_tokens + p_run.output_tokens + p_run.children_tokens,
        'usedCostUsd', p_run.cost_usd + p_run.children_cost_usd),
      'finalAnswerFor', p_run.final_answer_for,
      'output', case when p_run.output_format is not null then
        json_build_object('format', p_run.output_format, 'state', p_run.output_state) end,
      'timeLeftMs',
        ceil(extract(epoch from coalesce(p_run.final_answer_until, p_run.deadline_at) - clock_timestamp()) * 1000),
      'resumeCount', p_run.resume_count,
      'waitedMs', greatest(0, round(extract(epoch from clock_timestamp() - p_run.pending_at) * 1000)),
      'traceparent', p_run.traceparent,
      'attemptTraceparent', p_run.attempt_traceparent));
end $$;
