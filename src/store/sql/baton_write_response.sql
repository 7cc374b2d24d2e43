-- Writes the whole response of a model call before its tools start. Null: the worker is fenced. After a cancel no
-- call of it may start.
--
-- Called by writeResponse (src/store/work/step-writes.ts).
--
-- Locks: baton_lock_claimed_run takes the locks in statements of its own, so that everything after it reads what
-- the previous holder committed.
create or replace function baton_write_response(p_run uuid, p_epoch bigint, p_claim uuid, p_response jsonb,
  p_events jsonb)
returns jsonb language plpgsql as $$
declare
  v_run runs := baton_lock_claimed_run(p_run, p_epoch, p_claim);
  v_message uuid := (p_response ->> 'messageId')::uuid;
  v_may_start boolean := v_run.cancel_requested_at is null;
begin
  if v_run.id is null then return null; end if;
  -- The worker writes again: the reply of its first request was lost. Calls that were to start then are running.
  if not baton_apply_response(v_run.session_id, p_response, v_may_start, p_only_open => true) then
    return jsonb_build_object(
      'mayStart', exists (
        select 1 from parts where session_id = v_run.session_id and message_id = v_message and state = 'running'),
      'eventSeq', (select event_seq from sessions where id = v_run.session_id));
  end if;
  return jsonb_build_object('mayStart', v_may_start,
    'eventSeq', baton_append_events(v_run.session_id, p_run, p_events));
end $$;
