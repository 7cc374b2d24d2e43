-- Gives deliveries to the queue: those that are due, and those that no worker has taken in time, whose jobs are lost.
-- A claim whose worker is gone, or that has no outcome in time, makes its delivery due again under another number.
-- Nothing is returned while another process is at it.
--
-- Workers can send as many deliveries at the same time as they have slots, and no more are given: so none of them waits
-- in the queue behind those of another tenant. Tenants take turns: the one with the fewest deliveries under way is
-- first. A tenant has at most a quarter of the slots, and p_silent for all its endpoints that did not answer last time.
-- Beyond its quarter it gets slots that nobody else wants, for endpoints that took the last delivery within a second.
-- A quarter of all slots stays free even then, so if all of them hang now, another tenant still finds room.
--
-- Called by dispatchDeliveries (src/store/around/webhook-deliveries.ts).
create or replace function baton_dispatch_deliveries(
  p_slots integer, p_per_endpoint integer, p_silent integer, p_endpoints integer, p_unclaimed_ms integer)
returns table (delivery_id uuid, dispatch_no integer)
language plpgsql as $$
declare
  v_now timestamptz := clock_timestamp();
  v_slots integer;
  v_share integer;
  v_free integer;
begin
  if not pg_try_advisory_xact_lock(1652651122, 'webhook_deliveries'::regclass::oid::integer) then return; end if;
  update webhook_deliveries d set state = 'waiting', claim_id = null, claimed_by = null, due_at = v_now
    -- An array is chosen once: a plan may ask a subquery with a limit again for every row.
    where d.id = any(array(
      select s.id from webhook_deliveries s where s.state = 'sending' and s.claim_id is not null
        and (s.due_at <= v_now or not exists (select 1 from workers where workers.id = s.claimed_by))
      for update skip locked));
  return query
    update webhook_deliveries d set due_at = v_now + make_interval(secs => p_unclaimed_ms / 1000.0)
    where d.id = any(array(
      select s.id from webhook_deliveries s where s.state = 'sending' and s.claim_id is null and s.due_at <= v_now
      for update skip locked))
    returning d.id, d.dispatch;
  select p_slots * greatest(1, count(*)) into v_slots from workers where 'delivery' = any (kinds);
  v_share := greatest(1, v_slots / 4);
  select v_slots - count(*) into v_free from webhook_deliveries s where s.state = 'sending';
  return query
    with recursive tenants as (
      (select w.tenant_id as id from webhook_deliveries w where w.state = 'waiting' order by w.tenant_id limit 1)
      union all
      select (select w.tenant_id from webhook_deliveries w where w.state = 'waiting' and w.tenant_id > t.id
        order by w.tenant_id limit 1) from tenants t where t.id is not null
    ), sending as materialized (
      select s.tenant_id, s.endpoint, count(*)::integer as deliveries, exists (
          select 1 from silent_endpoints e where e.endpoint = s.endpoint) as is_silent
        from webhook_deliveries s where s.state = 'sending' group by s.tenant_id, s.endpoint
    ), walked as materialized (
      select t.id as tenant_id, e.endpoint from tenants t cross join lateral (
        with recursive walk as (
          (select w.endpoint, 1 as nth from webhook_deliveries w where w.state = 'waiting' and w.tenant_id = t.id
            and w.endpoint > coalesce((select after_endpoint from delivery_cursors where tenant_id = t.id), '')
            order by w.endpoint limit 1)
          union all
          select (select w.endpoint from webhook_deliveries w where w.state = 'waiting' and w.tenant_id = t.id
              and w.endpoint > k.endpoint order by w.endpoint limit 1), k.nth + 1
            from walk k where k.endpoint is not null and k.nth < p_endpoints
        ) select walk.endpoint from walk where walk.endpoint is not null
      ) as e
      where v_free > 0 and t.id is not null and exists (
        select 1 from webhook_deliveries w where w.state = 'waiting' and w.tenant_id = t.id and w.due_at <= v_now)
    ), cut as (
      insert into delivery_cursors as cursors (tenant_id, after_endpoint)
        select w.tenant_id, max(w.endpoint) from walked w group by w.tenant_id having count(*) = p_endpoints
        on conflict (tenant_id) do update set after_endpoint = excluded.after_endpoint
    ), begun_again as (
      delete from delivery_cursors cursors using (
          select t.id from tenants t left join walked w on w.tenant_id = t.id group by t.id having count(w) < p_endpoints
        ) as whole
        where v_free > 0 and cursors.tenant_id = whole.id
    ), due as (
      select e.tenant_id, e.endpoint, w.id, w.due_at, exists (
          select 1 from silent_endpoints x where x.endpoint = e.endpoint) as is_silent
        from walked e cross join lateral (
          select n.id, n.due_at from webhook_deliveries n
          where n.state = 'waiting' and n.tenant_id = e.tenant_id and n.endpoint = e.endpoint and n.due_at <= v_now
          order by n.due_at
          limit greatest(0, p_per_endpoint - coalesce((
            select s.deliveries from sending s where s.tenant_id = e.tenant_id and s.endpoint = e.endpoint), 0))
        ) as w
    ), bounded as (
      select due.*, row_number() over (partition by due.tenant_id, due.is_silent order by due.due_at, due.id)
          + coalesce((select sum(s.deliveries) from sending s
            where s.tenant_id = due.tenant_id and s.is_silent), 0) as nth_silent
        from due
    ), placed as (
      select b.id, b.endpoint, b.due_at, row_number() over (partition by b.tenant_id order by b.due_at, b.id)
          + coalesce((select sum(s.deliveries) from sending s where s.tenant_id = b.tenant_id), 0) as place
        from bounded b where not b.is_silent or b.nth_silent <= p_silent
    ), chosen as (
      select p.id, p.place, row_number() over (order by p.place, p.due_at, p.id) as nth from placed p
        where p.place <= v_share or (
          select d.state = 'delivered' and d.took_ms <= 1000 from webhook_deliveries d
          where d.endpoint = p.endpoint and d.state in ('delivered', 'failed')
          order by d.created_at desc, d.id desc limit 1)
    )
    update webhook_deliveries d set
      state = 'sending',
      dispatch = d.dispatch + 1,
      due_at = v_now + make_interval(secs => p_unclaimed_ms / 1000.0)
    from chosen c
    where d.id = c.id and d.state = 'waiting' and c.nth <= v_free - case when c.place > v_share then v_share else 0 end
    returning d.id, d.dispatch;
end $$;
