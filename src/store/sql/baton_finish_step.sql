-- Ends a step and decides what comes next. Null: the worker is fenced. The moves are of calls that this claim has
-- started, so no other process can have moved them. "written" names a message that this claim has finished before, and
-- its calls that stay open.
--
-- A failover may have lost what this claim wrote earlier, and kept the claim. Then the step must not end over a message
-- without its answer, or calls without their outcomes: BT001.
--
-- Called by finishStep (src/store/work/step-writes.ts).
--
-- Locks: baton_lock_claimed_run takes the locks in statements of its own, so that everything after it reads what
-- the previous holder committed.
create or replace function baton_finish_step(p_run uuid, p_epoch bigint, p_claim uuid, p_finish jsonb, p_blobs bytea[])
returns json language plpgsql as $$
declare
  v_move jsonb;
  v_written jsonb := p_finish -> 'written';
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
      raise exception 'a call of message % is not %', v_move ->> 'messageId', v_move -> 'from' using errcode = 'BT001';
    end if;
  end loop;
  if v_written is not null and not exists (select 1 from messages where id = (v_written ->> 'messageId')::uuid
      and session_id = v_run.session_id and finish_reason is not null) then
    raise exception 'message % has no answer any more', v_written ->> 'messageId' using errcode = 'BT001';
  end if;
  -- A cancel leaves calls as they are.
  if v_written is not null and v_run.cancel_requested_at is null and exists (select 1 from parts
      where session_id = v_run.session_id and message_id = (v_written ->> 'messageId')::uuid
        and state in ('pending', 'running') and not v_written -> 'open' @> to_jsonb(idx)) then
    raise exception 'calls of message % have no outcome any more', v_written ->> 'messageId' using errcode = 'BT001';
  end if;
  return baton_take_branch(v_run, p_finish);
end $$;
