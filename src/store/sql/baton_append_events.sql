-- Appends events to the log of a session and gives them the next numbers. Returns the number of the last one.
--
-- Called by appendEvents (src/store/transcript/events.ts), and by the functions that change a run.
--
-- Lock: the caller holds the session row. So the numbers have no gap and follow the order of commits.
create or replace function baton_append_events(p_session uuid, p_run uuid, p_events jsonb) returns bigint
language plpgsql as $$
declare
  v_last bigint;
  v_tenant text;
begin
  if p_events = '[]' then return (select event_seq from sessions where id = p_session); end if;
  update sessions set event_seq = event_seq + jsonb_array_length(p_events), updated_at = clock_timestamp()
    where id = p_session returning event_seq, tenant_id into v_last, v_tenant;
  perform baton_insert_events(p_session, v_tenant, p_run, v_last, p_events);
  return v_last;
end $$;
