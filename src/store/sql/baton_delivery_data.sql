-- Content of a delivery about a run, as `json`, which keeps the order of keys: ids, how it ended or what it waits for, and its answer, but no transcript. Texts and
-- arguments of calls are bounded, so the whole is.
--
-- Called by baton_write_deliveries.
create or replace function baton_delivery_data(p_run runs, p_session sessions) returns json
language plpgsql as $$
declare
  c_output_chars constant integer := 32768;
  c_args_chars constant integer := 4096;
  c_calls constant integer := 32;
  v_output text;
  v_value json := case when p_run.status in ('completed', 'incomplete') then baton_written(p_run.output -> 'value') end;
  v_calls json := '[]';
begin
  if p_run.status in ('completed', 'incomplete') then
    select string_agg(content ->> 'text', '' order by idx) into v_output from parts
      where session_id = p_run.session_id and type = 'text' and message_id = (
        select id from messages where run_id = p_run.id and role = 'assistant' and not superseded and not is_summary
        order by seq desc limit 1);
  elsif p_run.status = 'requires_action' then
    select coalesce(json_agg(call order by seq, idx), '[]'::json) into v_calls from (
      select m.seq, p.idx, json_build_object(
        'id', 'call_' || replace(p.message_id::text, '-', '') || '_' || p.idx,
        'kind', p.required_action,
        'toolName', p.tool_name,
        -- Null: too large to be sent along; the run has them.
        'args', case when length(baton_written(p.content -> 'input')::text) <= c_args_chars
          then baton_written(p.content -> 'input') end,
        'questions', case when length((p.question -> 'items')::text) <= c_args_chars
          then baton_written(p.question -> 'items') end) as call
      from messages m join parts p on p.session_id = m.session_id and p.message_id = m.id
      where m.run_id = p_run.id and m.step_no = p_run.pending_no and not m.superseded
        and p.required_action <> 'child' and p.answer is null
      order by m.seq, p.idx limit c_calls) as calls;
  end if;
  return json_build_object(
    'sessionId', baton_public_id('ses', p_run.session_id),
    'key', p_session.external_key,
    'title', p_session.title,
    -- As `nameOfSession` names it.
    'name', coalesce(nullif(btrim(p_session.title), ''), nullif(btrim(p_session.first_words), ''),
      nullif(btrim(p_session.external_key), ''), p_session.agent_name),
    'agent', p_session.agent_name,
    'metadata', p_session.metadata,
    'run', json_build_object(
      'id', baton_public_id('run', p_run.id),
      'status', p_run.status,
      'reason', p_run.status_reason,
      'steps', p_run.step_count,
      'costUsd', p_run.cost_usd,
      'error', case when p_run.status in ('failed', 'incomplete') and p_run.error is not null then json_build_object(
        'code', p_run.error ->> 'code', 'message', left(p_run.error ->> 'message', c_args_chars)) end),
    'output', left(v_output, c_output_chars),
    -- The result of a run with a schema. Null: it has none, or one too large to be sent along; the run has it.
    'value', case when length(v_value::text) <= c_output_chars then v_value end,
    'isOutputCut', coalesce(length(v_output) > c_output_chars or length(v_value::text) > c_output_chars, false),
    'requiredActions', v_calls);
end $$;
