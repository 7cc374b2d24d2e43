-- Moves tool calls one by one and appends the events of those that were moved, in that order. Null: the worker is
-- fenced. After a cancel no call starts; one that is running already began before the cancel, and a worker that
-- asks again has lost the answer.
--
-- Called by moveCalls (src/store/work/step-writes.ts).
--
-- Locks: baton_lock_claimed_run takes the locks in statements of its own, so that everything after it reads what
-- the previous holder committed.
create or replace function baton_move_calls(p_run uuid, p_epoch bigint, p_claim uuid, p_moves jsonb, p_blobs bytea[])
returns jsonb language plpgsql as $$
declare
  v_run runs := baton_lock_claimed_run(p_run, p_epoch, p_claim);
  v_is_cancelled boolean := v_run.cancel_requested_at is not null;
  v_move jsonb;
  v_answer text;
  v_answers jsonb := '[]';
  v_events jsonb := '[]';
begin
  if v_run.id is null then return null; end if;
  for v_no in 1 .. jsonb_array_length(p_moves) loop
    v_move := p_moves -> (v_no - 1);
    v_answer := case
      when v_is_cancelled and v_move ->> 'to' = 'running' and exists (select 1 from parts
        where session_id = v_run.session_id and message_id = (v_move ->> 'messageId')::uuid
          and idx = (v_move ->> 'index')::integer and v_move -> 'from' ? state) then 'cancelled'
      when baton_move_call(v_run.session_id, v_move, p_blobs[v_no]) then 'moved'
      else 'refused' end;
    v_answers := v_answers || to_jsonb(v_answer);
    if v_answer = 'moved' then v_events := v_events || (v_move -> 'events'); end if;
  end loop;
  return jsonb_build_object('answers', v_answers, 'eventSeq', baton_append_events(v_run.session_id, p_run, v_events));
end $$;
