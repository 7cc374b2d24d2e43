-- Opens the assistant's message of a step. Its number and those of the view are from the row of the session.
--
-- Called by baton_begin_step and baton_write_branch.
--
-- Lock: the caller holds the session and the run.
create or replace function baton_open_message(p_run runs, p_message uuid, p_seq bigint, p_event_seq bigint,
  p_view_start bigint, p_summary bigint)
returns void language plpgsql as $$
begin
  insert into messages (id, tenant_id, session_id, seq, role, run_id, step_no, attempt, epoch, event_seq, view_start_seq,
    summary_seq)
    values (p_message, p_run.tenant_id, p_run.session_id, p_seq, 'assistant', p_run.id, p_run.pending_no,
      p_run.attempt, p_run.epoch, p_event_seq, p_view_start, p_summary);
end $$;
