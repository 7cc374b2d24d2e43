-- The event that a step has begun.
--
-- Called by baton_begin_step and baton_write_branch.
create or replace function baton_step_started(p_run runs, p_message uuid) returns jsonb language plpgsql stable as $$
begin
  return jsonb_build_object('type', 'step:started', 'data', jsonb_build_object(
    'runId', baton_public_id('run', p_run.id), 'step', p_run.pending_no, 'attempt', p_run.attempt,
    'messageId', baton_public_id('msg', p_message))
      || jsonb_strip_nulls(jsonb_build_object('finalAnswerFor', p_run.final_answer_for, 'workerId', p_run.lease_owner,
        'waitedMs', greatest(0, round(extract(epoch from clock_timestamp() - p_run.pending_at) * 1000)))));
end $$;
