-- Whether the worker that ends a step may begin the next one itself: the run asks for no newer engine, and no other run
-- of its tenant waits for its slot.
--
-- Called by baton_take_branch.
--
-- Lock: the caller holds the run. Whether another run waits is read without a lock: one that begins to wait meanwhile
-- gets the slot one step later.
create or replace function baton_may_carry_on(p_run runs, p_carry jsonb) returns boolean language plpgsql stable as $$
declare
  v_limit integer := (p_carry ->> 'tenantLimit')::integer;
begin
  if p_run.required_engine > (p_carry ->> 'engine')::integer then return false; end if;
  if v_limit = 0 then return true; end if;
  return coalesce(p_run.tenant_slot <= v_limit, false)
    and not exists (select 1 from runs where tenant_id = p_run.tenant_id and throttled_at is not null);
end $$;
