-- Begins a step: drains the inbox, opens the assistant message, and returns the view after message p_after (0: its
-- first page) with the numbers of the new message and of the last event. The session takes the epoch of the run.
--
-- Called by baton_claim_run, baton_carry_on and baton_restart_step.
--
-- Lock: the caller holds the session and the run.
create or replace function baton_begin_step(p_run runs, p_message uuid, p_after bigint, out view json,
  out next_after bigint,
  out opened_seq bigint, out last_event_seq bigint)
language plpgsql as $$
declare
  v_events jsonb := '[]';
  v_start bigint;
  v_summary bigint;
begin
  -- A final answer takes no new message: those that wait are for a run that can still call tools.
  if p_run.final_answer_for is null then
    perform baton_drain_inbox(p_run.session_id, p_run.id, p_run.pending_no);
  end if;
  if p_run.started_at is null then
    update runs set started_at = clock_timestamp() where id = p_run.id;
    v_events := v_events || jsonb_build_object(
      'type', 'run:started', 'data', jsonb_build_object('runId', baton_public_id('run', p_run.id)));
  end if;
  v_events := v_events || baton_step_started(p_run, p_message);
  -- One update for all columns: the row is wide, and every step writes it several times.
  update sessions set epoch = p_run.epoch, message_seq = message_seq + 1,
    event_seq = event_seq + jsonb_array_length(v_events), updated_at = clock_timestamp()
    where id = p_run.session_id returning message_seq, event_seq, view_start_seq, summary_message_seq
    into opened_seq, last_event_seq, v_start, v_summary;
  perform baton_open_message(p_run, p_message, opened_seq, last_event_seq, v_start, v_summary);
  perform baton_insert_events(p_run.session_id, p_run.tenant_id, p_run.id, last_event_seq, v_events);
  select page.view, page.next_after into view, next_after from baton_view(p_run.session_id, p_after) as page;
end $$;
