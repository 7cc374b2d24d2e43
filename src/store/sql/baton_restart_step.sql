-- Begins a step again after its worker recovered an interrupted one: the broken response is superseded, and the
-- step begins as in a claim. Null: the worker is fenced. A reply without a view: a cancel was requested meanwhile,
-- or the run is used up; the interrupted message stays as it is, and nothing is drained.
--
-- Called by restartStep (src/store/work/claims.ts).
--
-- Locks: baton_lock_claimed_run takes the locks in statements of its own, so that everything after it reads what
-- the previous holder committed.
create or replace function baton_restart_step(p_run uuid, p_epoch bigint, p_claim uuid, p_message uuid, p_broken jsonb)
returns json
language plpgsql as $$
declare
  v_run runs := baton_lock_claimed_run(p_run, p_epoch, p_claim);
  v_view json;
  v_next_after bigint;
begin
  if v_run.id is null then return null; end if;
  if v_run.cancel_requested_at is null and not baton_is_used_up(v_run) then
    -- The worker asks again: the reply of its first request was lost.
    if exists (select 1 from messages where id = p_message and session_id = v_run.session_id) then
      select page.view, page.next_after into v_view, v_next_after from baton_view(v_run.session_id) as page;
    else
      if p_broken is not null then
        perform baton_apply_response(v_run.session_id, p_broken -> 'response');
        perform baton_append_events(v_run.session_id, p_run, p_broken -> 'events');
      end if;
      select begun.view, begun.next_after into v_view, v_next_after from baton_begin_step(v_run, p_message, 0) as begun;
    end if;
  end if;
  return json_build_object('sessionId', v_run.session_id, 'view', v_view, 'viewNextAfter', v_next_after,
    'messageSeq', (select seq from messages where id = p_message and session_id = v_run.session_id),
    'eventSeq', (select event_seq from sessions where id = v_run.session_id));
end $$;
