-- Gives the runs of a tenant that were throttled, oldest first, to the queue: as many as there are slots that no
-- run has claimed or is about to claim (the next step of a started run, or a run that was released in the last 10
-- seconds). Returns their jobs. With p_limit = 0 no run stays throttled.
--
-- Called by releaseThrottled (src/store/work/throttling.ts).
--
-- Lock: the runs that it releases, with skip locked: it waits for no other transaction, and a run that is locked
-- now is released the next time.
create or replace function baton_release_throttled(p_tenant text, p_limit integer, p_most integer)
returns jsonb language plpgsql as $$
declare
  v_room integer := p_most;
  v_jobs jsonb;
begin
  if not exists (select 1 from runs where tenant_id = p_tenant and throttled_at is not null) then return '[]'; end if;
  if p_limit > 0 then
    v_room := least(p_most, p_limit
      - (select count(*) from runs where tenant_id = p_tenant and is_claimed and tenant_slot is not null)
      - (select count(*) from runs
          where tenant_id = p_tenant and (started_at is not null or pending_dispatch > 1)
            and due_at > (select clock_timestamp() - interval '10 seconds') and pending_at <= clock_timestamp()));
  end if;
  -- In an array, so that it is chosen once: a plan may ask a subquery with a limit again for every run, and then
  -- "skip locked" finds others each time.
  with admitted as (
    update runs set throttled_at = null, pending_dispatch = pending_dispatch + 1, pending_at = clock_timestamp(),
      next_check_at = null
      where id = any(array(select id from runs where tenant_id = p_tenant and throttled_at is not null
        order by created_at, id limit greatest(v_room, 0) for no key update skip locked))
      returning id, created_at, pending_kind, pending_no, pending_dispatch
  )
  select coalesce(jsonb_agg(jsonb_build_object('runId', id, 'kind', pending_kind, 'no', pending_no,
      'dispatch', pending_dispatch) order by created_at, id), '[]') into v_jobs from admitted;
  return v_jobs;
end $$;
