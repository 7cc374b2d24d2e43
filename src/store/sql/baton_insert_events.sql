-- Inserts events up to number p_last. The session row has that number already.
--
-- Called by baton_append_events, and by baton_begin_step and baton_write_branch, which raise the number together
-- with other columns of the session.
--
-- Lock: the caller holds the session.
create or replace function baton_insert_events(p_session uuid, p_tenant text, p_run uuid, p_last bigint, p_events jsonb)
returns void
language plpgsql as $$
begin
  insert into events (session_id, seq, tenant_id, run_id, type, data)
    select p_session, p_last - jsonb_array_length(p_events) + e.ord, p_tenant, p_run,
      e.event ->> 'type', e.event -> 'data'
    from jsonb_array_elements(p_events) with ordinality as e (event, ord);
end $$;
