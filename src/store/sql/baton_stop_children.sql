-- Asks that the children of a run stop, because their parent no longer waits: those that run are cancelled after the
-- commit, the others never begin. With p_all also those in the background, which outlive a run that ended by itself, and
-- those in the background that children of the run left behind when they ended. The ones of a child that works are stopped
-- by the end of its run. With p_all everything below a child that works is asked to stop as well, so that a cancel
-- reaches the bottom of a tree at once; their own runs' cancels find what is left out here.
--
-- Called by baton_write_branch, baton_begin_cancel and stopChildren (src/store/session/children.ts).
--
-- Lock: the caller holds the session and the run. Children are locked in one order, because two cancels may meet. A child that another transaction begins meanwhile is waited for; that
-- one has the lock of the child's session and asks for no other. Below the children of the run no lock is waited for:
-- their parents' sessions are not locked.
create or replace function baton_stop_children(p_run uuid, p_all boolean) returns void language plpgsql as $$
declare
  v_runs uuid[] := array[p_run];
begin
  if p_all then
    with recursive callers (run_id) as (
      select p_run
      union
      select c.run_id from children c join callers on c.parent_run_id = callers.run_id
        where c.state in ('ended', 'delivered', 'dropped'))
    select array_agg(run_id) into v_runs from callers;
  end if;
  with working as materialized (
    select parent_session_id, message_id, idx from children
    where parent_run_id = any (v_runs) and state in ('held', 'asked', 'running')
      and not stop_requested and (p_all or mode = 'wait')
    order by parent_session_id, message_id, idx for no key update)
  update children c set
    state = case c.state when 'held' then 'dropped' when 'asked' then 'ended' else c.state end,
    result = case when c.state = 'asked' then
      jsonb_build_object('status', 'cancelled', 'steps', 0, 'tokens', 0, 'costUsd', 0) else c.result end,
    stop_requested = true,
    due_at = case when c.state <> 'held' then clock_timestamp() end
    from working where c.parent_session_id = working.parent_session_id and c.message_id = working.message_id
      and c.idx = working.idx;
  if not p_all then return; end if;
  with recursive below (run_id) as (
    select run_id from children where parent_run_id = any (v_runs) and state = 'running'
    union
    select c.run_id from children c join below on c.parent_run_id = below.run_id where c.state = 'running'
  ), working as materialized (
    select parent_session_id, message_id, idx from children join below on children.parent_run_id = below.run_id
    where state = 'running' and not stop_requested limit 1000 for no key update of children skip locked)
  update children c set stop_requested = true, due_at = clock_timestamp()
    from working where c.parent_session_id = working.parent_session_id and c.message_id = working.message_id
      and c.idx = working.idx;
end $$;
