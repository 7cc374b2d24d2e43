-- Begins a compaction or prune: marks the run as started and returns the first page of the view. It drains no
-- message: the inbox is for the next step.
--
-- Called by baton_claim_run.
--
-- Lock: the caller holds the session and the run.
create or replace function baton_begin_maintenance(p_session uuid, p_run uuid, out view json, out next_after bigint)
language plpgsql as $$
begin
  update runs set started_at = clock_timestamp() where id = p_run and started_at is null;
  if found then
    perform baton_append_events(p_session, p_run, jsonb_build_array(jsonb_build_object(
      'type', 'run:started', 'data', jsonb_build_object('runId', baton_public_id('run', p_run)))));
  end if;
  select page.view, page.next_after into view, next_after from baton_view(p_session) as page;
end $$;
