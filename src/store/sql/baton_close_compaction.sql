-- Closes the round of compaction that is running. An accepted round adds its summary to the transcript and moves
-- the start of the view.
--
-- Called by baton_finish_maintenance.
--
-- Lock: the caller holds the session and the run.
create or replace function baton_close_compaction(p_session uuid, p_run uuid, p_close jsonb) returns void
language plpgsql as $$
declare
  v_summary jsonb := p_close -> 'summary';
  v_seq bigint;
  v_created jsonb;
begin
  if p_close ->> 'state' = 'completed' then
    update sessions set message_seq = message_seq + 1, view_start_seq = (p_close ->> 'viewStartSeq')::bigint,
      summary_message_seq = message_seq + 1, view_version = view_version + 1, compaction_count = compaction_count + 1,
      last_compaction_at = clock_timestamp()
      where id = p_session returning message_seq into v_seq;
    insert into messages (id, tenant_id, session_id, seq, role, run_id, is_summary, model, finished_at)
      select (v_summary ->> 'messageId')::uuid, tenant_id, p_session, v_seq, 'user', p_run, true,
        v_summary ->> 'model', clock_timestamp() from sessions where id = p_session;
    insert into parts (session_id, message_id, idx, tenant_id, type, content)
      select p_session, (v_summary ->> 'messageId')::uuid, e.ord - 1, s.tenant_id, e.part ->> 'type', e.part
      from sessions s, jsonb_array_elements(v_summary -> 'parts') with ordinality as e (part, ord)
      where s.id = p_session;
    v_created := baton_message_created(p_session, (v_summary ->> 'messageId')::uuid, v_seq, v_summary -> 'parts',
      octet_length(v_summary ->> 'parts'));
    perform baton_append_events(p_session, p_run,
      jsonb_build_array(jsonb_set(v_created, '{data,isSummary}', 'true')));
  end if;
  update compactions set state = p_close ->> 'state', strategy = coalesce(p_close ->> 'strategy', strategy),
    tokens_after = (p_close ->> 'tokensAfter')::integer,
    upto_seq = coalesce((p_close ->> 'uptoSeq')::bigint, upto_seq),
    attempts = (p_close ->> 'attempts')::integer, cost_usd = (p_close ->> 'costUsd')::double precision,
    usage = p_close -> 'usage', error = p_close -> 'error', summary_message_seq = v_seq, finished_at = clock_timestamp()
    where id = (p_close ->> 'id')::uuid and session_id = p_session and state = 'running';
  if not found then raise exception 'compaction % is not running', p_close ->> 'id'; end if;
  update sessions set compacting_since = null where id = p_session;
end $$;
