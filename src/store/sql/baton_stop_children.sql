-- Asks that the children of a run stop, because nobody waits for them any more: those that run are cancelled after the
-- commit, the others never begin. With p_all also those in the background, which outlive a run that ended by itself.
--
-- Called by baton_write_branch, baton_begin_cancel and stopChildren (src/store/children.ts).
--
-- Lock: the caller holds the session and the run. A child that another transaction begins meanwhile is waited for; that
-- one has the lock of the child's session and asks for no other.
create or replace function baton_stop_children(p_run uuid, p_all boolean) returns void language plpgsql as $$
begin
  update children set
    state = case state when 'held' then 'dropped' when 'asked' then 'ended' else state end,
    result = case when state = 'asked' then
      jsonb_build_object('status', 'cancelled', 'steps', 0, 'tokens', 0, 'costUsd', 0) else result end,
    stop_requested = true,
    due_at = case when state <> 'held' then clock_timestamp() end
    where parent_run_id = p_run and state in ('held', 'asked', 'running') and not stop_requested
      and (p_all or mode = 'wait');
end $$;
