-- Queues a failed run again, with a step after the failed one. Returns the job and the number of the event. The limits
-- stay as used as they were, without the time since the failure. A retry forgets a cancel: it asks for the work.
--
-- Called by retryFailedRun (src/store/changes/retry-run.ts).
--
-- Lock: the caller holds the session and has seen that no run is active.
create or replace function baton_retry_run(p_run uuid) returns jsonb language plpgsql as $$
declare
  v_run runs;
begin
  update runs set
    status = 'queued',
    error = null,
    pending_kind = 'step',
    pending_no = pending_no + 1,
    pending_dispatch = pending_dispatch + 1,
    pending_at = clock_timestamp(),
    next_check_at = null,
    attempt = 1,
    resume_count = 0,
    cancel_requested_at = null,
    cancel_inbox_seq = null,
    deadline_at = deadline_at + (clock_timestamp() - finished_at),
    finished_at = null
    where id = p_run returning * into v_run;
  -- As for any new run: no pending compaction, and none tried yet.
  update sessions set status = 'busy', active_run_id = p_run,
    words_due_at = coalesce(words_due_at, clock_timestamp() + interval '30 seconds'),
    context_state = context_state - 'pending' - 'compactionsSinceStep'
    where id = v_run.session_id;
  return jsonb_build_object('job', baton_pending_job(v_run), 'eventSeq',
    baton_append_events(v_run.session_id, p_run, jsonb_build_array(jsonb_build_object(
      'type', 'run:queued', 'data', jsonb_build_object('runId', baton_public_id('run', p_run))))));
end $$;
