-- Hands a requested compaction or prune over to the context state, from which the next run takes it.
--
-- Called by requestMaintenance (src/store/context.ts), startRequested (src/store/start-run.ts), baton_start_run and
-- baton_take_branch.
--
-- Lock: the caller holds the session.
create or replace function baton_take_requested(p_session uuid) returns void language plpgsql as $$
begin
  update sessions set requested_maintenance = null, context_state = context_state || baton_requested_state()
    where id = p_session;
end $$;
