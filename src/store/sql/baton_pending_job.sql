-- The pending job of a run, by its row.
--
-- Called by findPendingJob (src/store/work/finished-work.ts), baton_job_of, baton_take_branch, baton_requeue_run and
-- baton_retry_run.
create or replace function baton_pending_job(p_run runs) returns jsonb language sql stable as $$
  select jsonb_build_object('runId', p_run.id, 'kind', p_run.pending_kind, 'no', p_run.pending_no,
    'dispatch', p_run.pending_dispatch)
$$;
