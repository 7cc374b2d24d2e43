-- Whether an endpoint refuses requests with tools. A refusal counts for a day: the server may have been started
-- with tools since, or been given another model.
--
-- Called by readModel (src/store/work/model-limits.ts) and baton_model_memory.
create or replace function baton_refuses_tools(p_refused_at timestamptz) returns boolean language sql stable as $$
  select coalesce(p_refused_at > clock_timestamp() - interval '1 day', false)
$$;
