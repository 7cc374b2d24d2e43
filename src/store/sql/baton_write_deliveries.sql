-- Writes a delivery for each webhook that asks for what a run has come to: those of the tenant, and those of the
-- messages that the run took up. It stands in the transaction that ends or parks the run, so none is lost and none is
-- told of a change that was rolled back. Compactions and prunes of an idle session are not delivered.
--
-- Called by baton_write_branch and baton_cancel_promised.
--
-- Lock: the caller holds the session, and passes the run as it is after the change.
create or replace function baton_write_deliveries(p_run runs) returns void
language plpgsql as $$
declare
  v_type text := 'run:' || replace(p_run.status, '_', '-');
  v_session sessions;
  v_data json;
  v_target record;
  v_id uuid;
begin
  if p_run.kind <> 'task' then return; end if;
  select * into v_session from sessions where id = p_run.session_id;
  for v_target in
    select w.id as webhook_id, null::text as url, null::text as secret, w.id::text as endpoint from webhooks w
      where w.tenant_id = p_run.tenant_id and w.disabled_for is null and v_type = any (w.events)
        and (w.agent_name is null or w.agent_name = v_session.agent_name)
    union all
    select distinct null::uuid, webhook ->> 'url', webhook ->> 'secret', p_run.tenant_id || ' ' || (webhook ->> 'origin')
      from inbox where run_id = p_run.id and webhook is not null
  loop
    v_data := coalesce(v_data, baton_delivery_data(p_run, v_session));
    v_id := gen_random_uuid();
    insert into webhook_deliveries (id, tenant_id, webhook_id, url, secret, endpoint, session_id, run_id, type, body)
      values (v_id, p_run.tenant_id, v_target.webhook_id, v_target.url, v_target.secret, v_target.endpoint,
        p_run.session_id, p_run.id, v_type, baton_delivery_body(v_id, v_type, v_data));
  end loop;
end $$;
