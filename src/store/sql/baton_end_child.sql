-- Keeps the result of a child's run for its parent, in the transaction that ends the run: none is lost, and none is told
-- that was rolled back. A later end of the same run, after a retry, is no result any more.
--
-- Called by baton_write_branch and baton_cancel_promised.
--
-- Lock: the caller holds the child's session, and passes the run as it is after its end. The parent's is not needed.
create or replace function baton_end_child(p_run runs) returns void language plpgsql as $$
declare
  c_text_chars constant integer := 1000000;
  c_error_chars constant integer := 4096;
  v_text text;
begin
  if p_run.status in ('completed', 'incomplete') then
    select left(string_agg(content ->> 'text', '' order by idx), c_text_chars) into v_text from parts
      where session_id = p_run.session_id and type = 'text' and message_id = (
        select id from messages where run_id = p_run.id and role = 'assistant' and not superseded and not is_summary
          and finish_reason not in ('error', 'aborted')
        order by seq desc limit 1);
  end if;
  update children set
    state = 'ended',
    asks = 0,
    result = jsonb_build_object(
      'status', p_run.status,
      'reason', p_run.status_reason,
      'error', case when p_run.error is not null then jsonb_build_object(
        'code', p_run.error ->> 'code', 'message', left(p_run.error ->> 'message', c_error_chars)) end,
      'text', v_text,
      'steps', p_run.step_count + p_run.children_steps,
      'tokens', p_run.input_tokens + p_run.output_tokens + p_run.children_tokens,
      'costUsd', p_run.cost_usd + p_run.children_cost_usd) || coalesce(p_run.output, '{}'),
    ended_at = clock_timestamp(),
    due_at = clock_timestamp()
    where run_id = p_run.id and state = 'running';
end $$;
