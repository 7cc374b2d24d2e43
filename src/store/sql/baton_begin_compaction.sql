-- Opens a round of compaction and returns its number. A round that a dead worker left open fails first, and readers
-- are told. Null: the worker is fenced.
--
-- Called by beginCompaction (src/store/work/maintenance.ts).
--
-- Locks: baton_lock_claimed_run takes the locks in statements of its own, so that everything after it reads what
-- the previous holder committed.
create or replace function baton_begin_compaction(p_run uuid, p_epoch bigint, p_claim uuid, p_compaction jsonb)
returns jsonb language plpgsql as $$
declare
  v_session uuid := (baton_lock_claimed_run(p_run, p_epoch, p_claim)).session_id;
  v_round integer;
  v_error jsonb := jsonb_build_object('code', 'internal', 'message', 'The worker died while it compacted.');
begin
  if v_session is null then return null; end if;
  update compactions set state = 'failed', finished_at = clock_timestamp(), error = v_error
    where session_id = v_session and state = 'running';
  if found then
    perform baton_append_events(v_session, p_run, jsonb_build_array(jsonb_build_object(
      'type', 'compaction:failed', 'data', jsonb_build_object('error', v_error, 'attempts', 0))));
  end if;
  select coalesce(max(round), 0) + 1 into v_round from compactions where session_id = v_session;
  insert into compactions (id, tenant_id, session_id, run_id, round, strategy, reason, from_seq, upto_seq,
    tokens_before)
    select (p_compaction ->> 'id')::uuid, tenant_id, v_session, p_run, v_round, p_compaction ->> 'strategy',
      p_compaction ->> 'reason', (p_compaction ->> 'fromSeq')::bigint, (p_compaction ->> 'uptoSeq')::bigint,
      (p_compaction ->> 'tokensBefore')::integer
    from sessions where id = v_session;
  update sessions set compacting_since = clock_timestamp() where id = v_session;
  return jsonb_build_object('round', v_round, 'eventSeq', baton_append_events(v_session, p_run, jsonb_build_array(
    jsonb_build_object('type', 'compaction:start', 'data',
      jsonb_build_object('round', v_round) || (p_compaction - array['id', 'fromSeq', 'uptoSeq'])))));
end $$;
