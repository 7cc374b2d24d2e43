-- Gives deliveries to the queue: those that are due, and those that were given before and have no outcome in time. A
-- claim without an outcome is that of a dead worker: its delivery gets another number, and so a new job. One that no
-- worker has claimed keeps its number, because its job may still wait. Only p_per_endpoint are sent to an endpoint at
-- the same time, so one that hangs keeps no worker busy. Nothing is returned while another process is at it.
--
-- Called by dispatchDeliveries (src/store/webhook-deliveries.ts).
create or replace function baton_dispatch_deliveries(p_per_endpoint integer, p_limit integer, p_lost_after_ms integer)
returns table (delivery_id uuid, dispatch_no integer)
language plpgsql as $$
begin
  if not pg_try_advisory_xact_lock(1652651122, 'webhook_deliveries'::regclass::oid::integer) then return; end if;
  return query
    update webhook_deliveries d set
      dispatch = d.dispatch + case when d.claim_id is null then 0 else 1 end,
      claim_id = null,
      due_at = clock_timestamp() + make_interval(secs => p_lost_after_ms / 1000.0)
    -- An array is chosen once: a plan may ask a subquery with a limit again for every row.
    where d.id = any(array(
      select s.id from webhook_deliveries s where s.state = 'sending' and s.due_at <= clock_timestamp()
      limit p_limit for update skip locked))
    returning d.id, d.dispatch;
  return query
    with recursive endpoints as (
      (select w.endpoint from webhook_deliveries w where w.state = 'waiting' order by w.endpoint limit 1)
      union all
      select (select w.endpoint from webhook_deliveries w where w.state = 'waiting' and w.endpoint > e.endpoint
        order by w.endpoint limit 1) from endpoints e where e.endpoint is not null
    ), due as (
      select w.id from endpoints e cross join lateral (
        select n.id, n.due_at from webhook_deliveries n
        where n.state = 'waiting' and n.endpoint = e.endpoint and n.due_at <= clock_timestamp()
        order by n.due_at
        limit greatest(0, p_per_endpoint - (select count(*) from (
          select 1 from webhook_deliveries s where s.state = 'sending' and s.endpoint = e.endpoint
          limit p_per_endpoint) as sending))
      ) as w
      where e.endpoint is not null order by w.due_at limit p_limit
    )
    update webhook_deliveries d set
      state = 'sending',
      dispatch = d.dispatch + 1,
      due_at = clock_timestamp() + make_interval(secs => p_lost_after_ms / 1000.0)
    from due where d.id = due.id and d.state = 'waiting'
    returning d.id, d.dispatch;
end $$;
