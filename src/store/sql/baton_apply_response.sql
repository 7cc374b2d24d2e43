-- Replaces the streamed parts of an assistant message by its final parts. With p_may_start = false the tool calls
-- that would run are stored as pending. With p_only_open = true nothing is written to a message that is finished already,
-- and the result is false.
--
-- Called by keepIfCancelled (src/store/work/run-failure.ts), baton_write_response, baton_finish_step and
-- baton_restart_step.
--
-- Lock: the caller holds the session and the run.
create or replace function baton_apply_response(p_session uuid, p_response jsonb, p_may_start boolean default true,
  p_only_open boolean default false)
returns boolean
language plpgsql as $$
declare
  v_message uuid := (p_response ->> 'messageId')::uuid;
  v_tenant text;
begin
  if (p_response ->> 'superseded')::boolean and exists (
    select 1 from messages where id = v_message and session_id = p_session and finish_reason is not null) then
    raise exception 'message % is finished and cannot be superseded', v_message;
  end if;
  update messages set
    finish_reason = p_response ->> 'finishReason',
    model = p_response ->> 'model',
    usage = p_response -> 'usage',
    error = p_response -> 'error',
    request = p_response -> 'request',
    superseded = coalesce((p_response ->> 'superseded')::boolean, superseded),
    finished_at = clock_timestamp()
    where id = v_message and session_id = p_session and (finished_at is null or not p_only_open)
    returning tenant_id into v_tenant;
  if not found then
    if exists (select 1 from messages where id = v_message and session_id = p_session) then return false; end if;
    raise exception 'message % is not of the session', v_message;
  end if;
  with streamed as (delete from part_chunks where session_id = p_session and message_id = v_message)
    delete from parts where session_id = p_session and message_id = v_message;
  insert into parts
    (session_id, message_id, idx, tenant_id, type, content, tool_call_id, tool_name, state, started_at, finished_at)
    select p_session, v_message, e.ord - 1, v_tenant, e.part ->> 'type', e.part - 'state',
      e.part ->> 'toolCallId',
      e.part ->> 'toolName', made.state,
      case when made.state = 'running' then clock_timestamp() end,
      case when made.state in ('completed', 'error', 'denied') then clock_timestamp() end
    from jsonb_array_elements(p_response -> 'parts') with ordinality as e (part, ord), lateral (select
      case when e.part ->> 'state' = 'running' and not p_may_start then 'pending' else e.part ->> 'state' end
    ) as made (state);
  return true;
end $$;
