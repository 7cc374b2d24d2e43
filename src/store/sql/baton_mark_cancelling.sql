-- Asks the worker that has claimed a run to stop it, and returns the number of the event. With p_parks, messages
-- that were accepted before the cancel stay in the inbox. Null: no worker has claimed the run, or it is to stop
-- already.
--
-- Called by markClaimed (src/store/changes/cancels.ts) and baton_cancel_claimed.
--
-- Lock: the caller holds the session. The run is locked here, by a statement that reads its state as it is after
-- the wait; the update follows in one of its own.
create or replace function baton_mark_cancelling(p_session uuid, p_run uuid, p_parks boolean) returns bigint
language plpgsql as $$
declare
  v_is_claimed boolean;
begin
  select status = 'running' and claim_id is not null into v_is_claimed from runs where id = p_run for no key update;
  if v_is_claimed is distinct from true then return null; end if;
  return baton_begin_cancel(p_session, p_run, p_parks);
end $$;
