-- Whether a run has used up its limits: then it takes no further message, and what waits gets a run of its own. A
-- run that has taken no message yet takes one first; otherwise the message that started it would start run after
-- run. A final answer is limited by its own time alone.
--
-- Called by baton_claim_run, baton_carry_on, baton_restart_step and baton_write_branch.
create or replace function baton_is_used_up(p_run runs) returns boolean language plpgsql stable as $$
begin
  if p_run.final_answer_for is not null then return p_run.final_answer_until <= clock_timestamp(); end if;
  -- Apart from the query below, so that a run within its limits costs none.
  if not (
    coalesce(p_run.deadline_at <= clock_timestamp(), false)
    or coalesce(p_run.input_tokens + p_run.output_tokens + p_run.children_tokens >= p_run.budget_tokens, false)
    -- An unknown cost may have exceeded the budget.
    or coalesce(p_run.cost_usd + p_run.children_cost_usd >= p_run.budget_cost_usd, p_run.budget_cost_usd is not null)
  ) then return false; end if;
  return exists (select 1 from messages where run_id = p_run.id and role = 'user' and not is_summary);
end $$;
