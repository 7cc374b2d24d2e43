-- Begins the next step of a run in the transaction that ended the last one, and returns what a claim returns. The run has
-- its new claim already; p_opened is the number of the message if that is open, too. p_last is the number of the
-- session's last event.
--
-- Called by baton_take_branch. A worker that lost the reply asks again by a claim with the same id.
--
-- Lock: the caller holds the session and the run. No check for a dead worker is needed: the run was and stays one of
-- its runs, so the worker that retires it takes this run back, too.
create or replace function baton_carry_on(p_run runs, p_carry jsonb, p_opened bigint, p_last bigint)
returns json language plpgsql as $$
declare
  v_session sessions;
  v_message uuid := (p_carry ->> 'messageId')::uuid;
  v_after bigint := 0;
  v_opened bigint := p_opened;
  v_last bigint := p_last;
  v_begun record;
  v_view json;
  v_next_after bigint;
begin
  -- As one value, as in baton_lock_claimed_run.
  v_session := (select session from sessions as session where id = p_run.session_id);
  -- As in baton_claim_run: a view of commits that a failover has lost is not trusted.
  if v_session.view_version = (p_carry ->> 'viewVersion')::bigint and exists (select 1 from messages
      where id = (p_carry ->> 'viewMessageId')::uuid and session_id = v_session.id
        and seq = (p_carry ->> 'viewAfterSeq')::bigint + 1) then
    v_after := (p_carry ->> 'viewAfterSeq')::bigint;
  end if;
  if v_opened is not null then
    select page.view, page.next_after into v_view, v_next_after from baton_view(v_session.id, v_after) as page;
  elsif not baton_is_used_up(p_run) then
    v_begun := baton_begin_step(p_run, v_message, v_after);
    v_view := v_begun.view;
    v_next_after := v_begun.next_after;
    v_opened := v_begun.opened_seq;
    v_last := v_begun.last_event_seq;
  end if;
  return json_build_object(
    'outcome', 'claimed',
    'epoch', p_run.epoch,
    'cancelRequested', false,
    'interruptedMessageId', null,
    'view', v_view,
    'viewAfterSeq', v_after,
    'viewNextAfter', v_next_after,
    'viewVersion', v_session.view_version,
    'messageSeq', v_opened,
    'eventSeq', v_last,
    'facts', baton_claim_facts(v_session, p_run));
end $$;
