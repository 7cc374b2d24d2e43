-- The fence: locks the session and the run, and returns the run if epoch and claim are still those of the worker.
-- Null: the worker has lost the run and must write nothing.
--
-- Called by handBackRun (src/store/work/claims.ts), failClaimedRun (src/store/work/run-failure.ts), noteToolDrift
-- (src/store/work/pinned-tools.ts), and first of all by every function that a worker writes with.
--
-- Locks: session, then run. Each lock is taken by a statement of its own and the data is read by a later one: in
-- READ COMMITTED a statement keeps the snapshot from before it waited for a lock, and would miss what the previous
-- holder committed meanwhile. A run never changes its session, so finding the session needs no lock.
--
-- The row is read as one value: as a list of its columns, each statement would look up the type of each.
create or replace function baton_lock_claimed_run(p_run uuid, p_epoch bigint, p_claim uuid) returns runs
language plpgsql as $$
begin
  perform 1 from sessions where id = (select session_id from runs where id = p_run) for no key update;
  return (select run from runs as run where id = p_run and epoch = p_epoch and claim_id = p_claim for no key update);
end $$;
