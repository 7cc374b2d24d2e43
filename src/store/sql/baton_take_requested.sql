-- Hands a requested compaction or prune over to the context state, from which the next run takes it.
--
-- Called by requestMaintenance (src/store/changes/maintenance.ts), baton_start_run, baton_take_branch and
-- baton_follow_run_end.
--
-- Lock: the caller holds the session.
create or replace function baton_take_requested(p_session uuid) returns void language plpgsql as $$
begin
  update sessions set
    requested_maintenance = null,
    context_state = context_state || '{"pending": {"reason": "manual", "force": true, "stripMedia": false}}'
    where id = p_session;
end $$;
