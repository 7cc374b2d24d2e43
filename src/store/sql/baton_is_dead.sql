-- Whether a worker was declared dead: it may claim nothing until it is registered again.
--
-- Called by baton_claim_run.
--
-- Lock: the advisory lock of the worker id, shared by its claims, after the session and the run. baton_lock_retirement
-- takes it exclusively: either the claim commits before the reconciler looks at what the worker has claimed, or the
-- claim sees that the worker is dead. The look is a statement of its own, so that it sees what the reconciler
-- committed while the claim waited.
create or replace function baton_is_dead(p_worker text) returns boolean language plpgsql as $$
begin
  perform pg_advisory_xact_lock_shared(1652651120, hashtext(p_worker));
  return exists (select 1 from dead_workers where id = p_worker);
end $$;
