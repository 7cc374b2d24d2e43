-- The pending job of a run, by the id of the run.
--
-- Called by readJob (src/store/session/start-run.ts), baton_resume_run and baton_follow_run_end.
create or replace function baton_job_of(p_run uuid) returns jsonb language plpgsql stable as $$
begin
  return (select baton_pending_job(runs) from runs where id = p_run);
end $$;
