-- Takes a run from its worker and makes its work pending again. Returns the job; null: the run has no pending work.
-- With p_is_recovery the worker was lost, so the run counts one more loss.
--
-- Called by requeueRun and requeueLostRuns (src/store/work/claims.ts).
--
-- Lock: the caller holds the session and the run.
create or replace function baton_requeue_run(p_run uuid, p_is_recovery boolean) returns jsonb language plpgsql as $$
declare
  v_run runs;
  v_epoch bigint;
begin
  update sessions set epoch = epoch + 1 where id = (select session_id from runs where id = p_run)
    returning epoch into v_epoch;
  update runs set
    status = case when status = 'running' then 'queued' else status end,
    epoch = v_epoch,
    claim_id = null,
    lease_owner = null,
    lease_expires_at = null,
    pending_dispatch = pending_dispatch + 1,
    pending_at = clock_timestamp(),
    next_check_at = null,
    resume_count = resume_count + case when p_is_recovery then 1 else 0 end
    where id = p_run and pending_kind is not null returning * into v_run;
  if not found then return null; end if;
  return baton_pending_job(v_run);
end $$;
