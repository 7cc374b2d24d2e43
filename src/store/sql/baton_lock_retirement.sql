-- Keeps the claims of a worker out while the reconciler declares it dead.
--
-- Called by retire (src/store/work/workers.ts).
--
-- Lock: the advisory lock of the worker id, exclusively; the caller holds no other lock. Its query comes in a
-- statement of its own afterwards and sees every claim that held the lock before: see baton_is_dead.
create or replace function baton_lock_retirement(p_worker text) returns void language plpgsql as $$
begin
  perform pg_advisory_xact_lock(1652651120, hashtext(p_worker));
end $$;
