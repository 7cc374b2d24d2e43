-- Claims a run with a free slot of its tenant. False: there is none, or throttled runs that are older need those
-- that are free.
--
-- Called by baton_claim_run.
--
-- Lock: the caller holds the session and the run. Two claims of the same slot meet at the unique index over slots:
-- the second one waits for the first, then looks again. A slot is free as soon as its run has no claim, whatever
-- ended that.
create or replace function baton_take_slot(p_run runs, p_claim uuid, p_limit integer)
returns boolean language plpgsql as $$
declare
  v_free integer[];
  v_before integer;
begin
  loop
    select coalesce(array_agg(slot order by random()), '{}') into v_free from generate_series(1, p_limit) as slot
      where not exists (select 1 from runs
        where tenant_id = p_run.tenant_id and tenant_slot = slot and is_claimed);
    select count(*) into v_before from (select 1 from runs
      where tenant_id = p_run.tenant_id and throttled_at is not null
        and (created_at, id) < (p_run.created_at, p_run.id) limit p_limit) as earlier;
    if cardinality(v_free) <= v_before then return false; end if;
    begin
      update runs set claim_id = p_claim, tenant_slot = v_free[1] where id = p_run.id;
      return true;
    exception when unique_violation then
      null;
    end;
  end loop;
end $$;
