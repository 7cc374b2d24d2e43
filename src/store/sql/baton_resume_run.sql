-- Makes the step of a run pending again when its last required action was answered, or when it is cancelled and its open
-- calls have begun work elsewhere. Returns its job. Null: the run waits no longer.
--
-- Called by resumeRun (src/store/session/start-run.ts).
--
-- Lock: the caller holds the session and the run.
create or replace function baton_resume_run(p_session uuid, p_run uuid) returns jsonb
language plpgsql as $$
begin
  update runs set status = 'running', pending_kind = 'step', pending_dispatch = pending_dispatch + 1,
    pending_at = clock_timestamp(), next_check_at = null, approval_expires_at = null, is_delegating = false
    where id = p_run and status = 'requires_action';
  if not found then return null; end if;
  update sessions set status = 'busy',
    words_due_at = coalesce(words_due_at, clock_timestamp() + interval '30 seconds') where id = p_session;
  return baton_job_of(p_run);
end $$;
