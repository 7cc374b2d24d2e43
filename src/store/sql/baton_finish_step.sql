-- Ends a step and decides what comes next. Null: the worker is fenced. The moves are of calls that this claim has
-- started, so no other process can have moved them.
--
-- Called by finishStep (src/store/step-writes.ts).
--
-- Locks: baton_lock_claimed_run takes the locks in statements of its own, so that everything after it reads what
-- the previous holder committed.
create or replace function baton_finish_step(p_run uuid, p_epoch bigint, p_claim uuid, p_finish jsonb, p_blobs bytea[])
returns json language plpgsql as $$
declare
  v_move jsonb;
  v_run runs := baton_lock_claimed_run(p_run, p_epoch, p_claim);
begin
  if v_run.id is null then return null; end if;
  -- Streamed text is dropped only where another attempt follows: a cancelled run keeps it.
  if v_run.cancel_requested_at is not null then
    p_finish := p_finish || coalesce(p_finish -> 'keptIfCancelled', '{}');
  end if;
  if p_finish -> 'response' is not null then
    perform baton_apply_response(v_run.session_id, p_finish -> 'response');
  end if;
  for v_no in 1 .. jsonb_array_length(p_finish -> 'moves') loop
    v_move := p_finish -> 'moves' -> (v_no - 1);
    if not baton_move_call(v_run.session_id, v_move, p_blobs[v_no]) then
      raise exception 'a call of message % is not %', v_move ->> 'messageId', v_move -> 'from';
    end if;
  end loop;
  return baton_take_branch(v_run, p_finish);
end $$;
