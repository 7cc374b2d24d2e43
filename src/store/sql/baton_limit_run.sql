-- Sets the limits of a new run, and the result that it is asked for. Of limits: the first of four places that names one
-- decides: p_limits, the newest waiting message with limits, the run that this one resumes unless that completed, the
-- agent. All but those of the agent are kept in runs.limits for a run that resumes this one: the agent may be another
-- one by then. p_lowered and the `lowered` of all waiting messages then take these limits down, never up: they are of
-- callers who may not decide what a run costs. Of results: the newest waiting message that asks for one decides, then the run that this one resumes,
-- then the agent.
--
-- Called by baton_start_run.
--
-- Lock: the caller holds the session.
create or replace function baton_limit_run(
  p_session uuid, p_run uuid, p_limits jsonb, p_lowered jsonb, p_resumes boolean
) returns void language plpgsql as $$
declare
  v_given jsonb;
  v_limits jsonb;
  v_lowered jsonb;
  v_output json;
begin
  v_given := coalesce((
      select case when status = 'completed' then '{}' else limits end from runs
      where p_resumes and session_id = p_session and kind = 'task' and limits is not null
      order by created_at desc, id desc limit 1), '{}')
    || coalesce((
      select limits from inbox where session_id = p_session and consumed_message_seq is null and limits <> '{}'
      order by seq desc limit 1), '{}')
    || p_limits;
  select coalesce(agent_snapshot -> 'limits', '{}') || v_given, agent_snapshot -> 'output' into v_limits, v_output from sessions where id = p_session;
  -- 100 is DEFAULT_MAX_STEPS, which holds where nobody names a limit of steps.
  select jsonb_object_agg(name, least(lowest, (v_limits ->> name)::numeric, case when name = 'maxSteps' and not v_limits ? name then 100 end))
    into v_lowered from (
      select name, min(value::numeric) as lowest from (
        select p_lowered as lowered
        union all
        select lowered from inbox where session_id = p_session and consumed_message_seq is null and lowered <> '{}'
      ) as sets, jsonb_each_text(lowered) as e (name, value) group by name
    ) as lowest_of_each;
  v_limits := v_limits || coalesce(v_lowered, '{}');
  v_given := v_given || coalesce(v_lowered, '{}');
  update runs set
    limits = v_given,
    max_steps = (v_limits ->> 'maxSteps')::integer,
    budget_tokens = (v_limits ->> 'maxTokens')::bigint,
    budget_cost_usd = (v_limits ->> 'maxCostUsd')::double precision,
    output_format = coalesce(
      (select output from inbox where session_id = p_session and consumed_message_seq is null and output is not null
        order by seq desc limit 1),
      (select output_format from (
        select status, output_format from runs
        where p_resumes and session_id = p_session and kind = 'task' and limits is not null and id <> p_run
        order by created_at desc, id desc limit 1) as resumed where status <> 'completed'),
      v_output),
    deadline_at = clock_timestamp() + make_interval(secs => (v_limits ->> 'deadlineMs')::bigint / 1000.0)
    where id = p_run;
end $$;
