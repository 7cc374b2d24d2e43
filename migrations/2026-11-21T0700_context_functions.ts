import { type Kysely, sql } from 'kysely';

/**
 * What the jobs of the context layer write. The transcript is only added to: marks and a new summary change the view.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  // Opens a round. One that a dead worker left open failed with it, and readers are told. Returns the
  // round's number; null: fenced.
  await sql`
    create function baton_begin_compaction(p_run uuid, p_epoch bigint, p_claim uuid, p_compaction jsonb)
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
      insert into compactions (id, tenant_id, session_id, run_id, round, strategy, reason, from_seq, upto_seq, tokens_before)
        select (p_compaction ->> 'id')::uuid, tenant_id, v_session, p_run, v_round, p_compaction ->> 'strategy',
          p_compaction ->> 'reason', (p_compaction ->> 'fromSeq')::bigint, (p_compaction ->> 'uptoSeq')::bigint,
          (p_compaction ->> 'tokensBefore')::integer
        from sessions where id = v_session;
      update sessions set compacting_since = clock_timestamp() where id = v_session;
      return jsonb_build_object('round', v_round, 'eventSeq', baton_append_events(v_session, p_run, jsonb_build_array(
        jsonb_build_object('type', 'compaction:start', 'data',
          jsonb_build_object('round', v_round) || (p_compaction - array['id', 'fromSeq', 'uptoSeq'])))));
    end $$`.execute(db);

  // Marks parts of the session, which changes its view. A mark that is there stays: the first one says when.
  await sql`
    create function baton_mark_parts(p_session uuid, p_marks jsonb) returns void language plpgsql as $$
    begin
      if coalesce(jsonb_array_length(p_marks), 0) = 0 then return; end if;
      update sessions set view_version = view_version + 1 where id = p_session;
      update parts set
        compacted_at = case when (mark ->> 'pruned')::boolean then coalesce(compacted_at, clock_timestamp()) else compacted_at end,
        media_stripped_at = case when (mark ->> 'mediaStripped')::boolean
          then coalesce(media_stripped_at, clock_timestamp()) else media_stripped_at end,
        view_limit = coalesce((mark ->> 'viewLimitChars')::integer, view_limit),
        original_tokens = coalesce(original_tokens, (mark ->> 'originalTokens')::integer)
      from jsonb_array_elements(p_marks) as mark
      where session_id = p_session and message_id = (mark ->> 'messageId')::uuid and idx = (mark ->> 'index')::integer;
    end $$`.execute(db);

  // Closes the round: an accepted one brings its summary and moves the view's start.
  await sql`
    create function baton_close_compaction(p_session uuid, p_run uuid, p_close jsonb) returns void
    language plpgsql as $$
    declare
      v_summary jsonb := p_close -> 'summary';
      v_seq bigint;
      v_created jsonb;
    begin
      if v_summary is not null and jsonb_typeof(v_summary) = 'object' then
        update sessions set message_seq = message_seq + 1, view_start_seq = (p_close ->> 'viewStartSeq')::bigint,
          summary_message_seq = message_seq + 1, view_version = view_version + 1, compaction_count = compaction_count + 1,
          last_compaction_at = clock_timestamp()
          where id = p_session returning message_seq into v_seq;
        insert into messages (id, tenant_id, session_id, seq, role, run_id, is_summary, model, finished_at)
          select (v_summary ->> 'messageId')::uuid, tenant_id, p_session, v_seq, 'user', p_run, true,
            v_summary ->> 'model', clock_timestamp() from sessions where id = p_session;
        insert into parts (message_id, idx, session_id, tenant_id, type, content)
          select (v_summary ->> 'messageId')::uuid, e.ord - 1, p_session, s.tenant_id, e.part ->> 'type', e.part
          from sessions s, jsonb_array_elements(v_summary -> 'parts') with ordinality as e (part, ord) where s.id = p_session;
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
    end $$`.execute(db);

  // Ends a compaction or prune job: marks, summary, state, usage, events and what comes next
  // commit together. Null: fenced.
  await sql`
    create function baton_finish_maintenance(p_run uuid, p_epoch bigint, p_claim uuid, p_finish jsonb) returns jsonb
    language plpgsql as $$
    declare
      v_run runs := baton_lock_claimed_run(p_run, p_epoch, p_claim);
    begin
      if v_run.id is null then return null; end if;
      perform baton_mark_parts(v_run.session_id, p_finish -> 'marks');
      if p_finish ? 'compaction' then
        perform baton_close_compaction(v_run.session_id, p_run, p_finish -> 'compaction');
      end if;
      return baton_take_branch(v_run, p_finish);
    end $$`.execute(db);
}

export async function down(db: Kysely<unknown>): Promise<void> {
  for (const name of [
    'baton_finish_maintenance',
    'baton_close_compaction',
    'baton_mark_parts',
    'baton_begin_compaction',
  ]) {
    await sql`drop function ${sql.ref(name)}`.execute(db);
  }
}
