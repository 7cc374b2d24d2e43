import { type Kysely, sql } from 'kysely';

/**
 * The building blocks of every change of a session. Lock order: session, run, inbox, parts. Each function
 * takes its locks in statements of their own and reads afterwards: a single CTE statement would keep the
 * snapshot from before the wait.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create function baton_public_id(p_prefix text, p_id uuid) returns text
    language sql immutable as $$ select p_prefix || '_' || replace(p_id::text, '-', '') $$`.execute(db);

  // Events up to number `p_last`, which the session's row has been given already.
  await sql`
    create function baton_insert_events(p_session uuid, p_tenant text, p_run uuid, p_last bigint, p_events jsonb) returns void
    language plpgsql as $$
    begin
      insert into events (session_id, seq, tenant_id, run_id, type, data)
        select p_session, p_last - jsonb_array_length(p_events) + e.ord, p_tenant, p_run, e.event ->> 'type', e.event -> 'data'
        from jsonb_array_elements(p_events) with ordinality as e (event, ord);
    end $$`.execute(db);

  // The caller holds the session's lock, so the numbers have no gap and follow the order of commits.
  await sql`
    create function baton_append_events(p_session uuid, p_run uuid, p_events jsonb) returns bigint
    language plpgsql as $$
    declare
      v_last bigint;
      v_tenant text;
    begin
      if p_events = '[]' then return (select event_seq from sessions where id = p_session); end if;
      update sessions set event_seq = event_seq + jsonb_array_length(p_events), updated_at = clock_timestamp()
        where id = p_session returning event_seq, tenant_id into v_last, v_tenant;
      perform baton_insert_events(p_session, v_tenant, p_run, v_last, p_events);
      return v_last;
    end $$`.execute(db);

  // The run as it is under both locks. Nothing but nulls: fenced. The caller lost the run and must write nothing. No other
  // session is a run's, so that looking for it needs no lock.
  await sql`
    create function baton_lock_claimed_run(p_run uuid, p_epoch bigint, p_claim uuid) returns runs
    language plpgsql as $$
    declare
      v_run runs;
    begin
      perform 1 from sessions where id = (select session_id from runs where id = p_run) for no key update;
      select * into v_run from runs where id = p_run and epoch = p_epoch and claim_id = p_claim for no key update;
      return v_run;
    end $$`.execute(db);

  // What a run may use: the agent's limits, what the run was given that it goes on from, what came with the newest
  // waiting message that has any, what was asked for. All but the agent's is kept for a run that goes on from this one:
  // the agent may be another one by then.
  await sql`
    create function baton_limit_run(p_session uuid, p_run uuid, p_limits jsonb, p_resumes boolean) returns void
    language plpgsql as $$
    declare
      v_given jsonb;
      v_limits jsonb;
    begin
      v_given := coalesce((
          select case when status = 'completed' then '{}' else limits end from runs
          where p_resumes and session_id = p_session and kind = 'task' and limits is not null
          order by created_at desc, id desc limit 1), '{}')
        || coalesce((
          select limits from inbox where session_id = p_session and consumed_message_seq is null and limits <> '{}'
          order by seq desc limit 1), '{}')
        || p_limits;
      select coalesce(agent_snapshot -> 'limits', '{}') || v_given into v_limits from sessions where id = p_session;
      update runs set
        limits = v_given,
        max_steps = (v_limits ->> 'maxSteps')::integer,
        budget_tokens = (v_limits ->> 'maxTokens')::bigint,
        budget_cost_usd = (v_limits ->> 'maxCostUsd')::double precision,
        deadline_at = clock_timestamp() + make_interval(secs => (v_limits ->> 'deadlineMs')::bigint / 1000.0)
        where id = p_run;
    end $$`.execute(db);

  // The caller holds the session's lock and has seen that no run is active. Everything that waits becomes the run's;
  // the run that was promised to somebody who waits, or who resumed the session, is this one. A compaction or prune
  // that somebody asked for goes before its first step.
  await sql`
    create function baton_start_run(
      p_session uuid, p_run uuid, p_kind text, p_traceparent text, p_pending text default 'step',
      p_limits jsonb default '{}', p_resumes boolean default false
    ) returns bigint language plpgsql as $$
    declare
      v_session sessions;
      v_pending text;
    begin
      select * into v_session from sessions where id = p_session;
      v_pending := case when p_pending = 'step' then coalesce(v_session.requested_maintenance, 'step') else p_pending end;
      insert into runs (id, tenant_id, session_id, kind, pending_kind, pending_at, start_inbox_seq, traceparent)
        values (p_run, v_session.tenant_id, p_session, p_kind, v_pending, clock_timestamp(), v_session.inbox_seq,
          coalesce(case when p_kind = 'task' then v_session.requested_resume ->> 'traceparent' end, p_traceparent));
      if p_kind = 'task' then
        perform baton_limit_run(p_session, p_run, coalesce(v_session.requested_resume -> 'limits', '{}') || p_limits,
          p_resumes or v_session.requested_resume is not null);
      end if;
      if v_pending <> p_pending then perform baton_take_requested(p_session); end if;
      -- What a compaction or a prune was to do that was cancelled before it began is nobody's any more.
      update sessions set status = 'busy', active_run_id = p_run,
        next_run_id = case when p_kind = 'task' then null else next_run_id end,
        requested_resume = case when p_kind = 'task' then null else requested_resume end,
        context_state = case when v_pending = 'step' then context_state - 'pending' else context_state end
          -- The breaker holds for a run: somebody wants something new, and what did not fit may not be in the way of it.
          - case when p_kind = 'task' then 'compactionsSinceStep' else '' end
        where id = p_session;
      if p_kind = 'task' then
        update inbox set run_id = p_run where session_id = p_session and consumed_message_seq is null;
      end if;
      return baton_append_events(p_session, p_run, jsonb_build_array(jsonb_build_object(
        'type', 'run:queued', 'data', jsonb_build_object('runId', baton_public_id('run', p_run)))));
    end $$`.execute(db);

  // A page of the view: the summary first, then the messages from the cut on, or those after `p_after` alone, at most 2000.
  // What was in the view before changes only with its version. `next_after` is where the next page begins; null: there is
  // none. Each part comes with its state and its marks beside it: merging them here would take twice the time of a large
  // view. The output of a pruned call is not read at all. In plpgsql, as every function that a step calls: the plan of a
  // function in SQL that cannot be inlined is made anew by every caller.
  await sql`
    create function baton_view(p_session uuid, p_after bigint default 0, out view json, out next_after bigint)
    language plpgsql stable as $$
    declare
      v_first bigint;
      v_summary bigint;
    begin
      select greatest(view_start_seq, p_after + 1), case when p_after = 0 then summary_message_seq end
        into v_first, v_summary from sessions where id = p_session;
      select coalesce(json_agg(json_build_object(
          'id', m.id, 'seq', m.seq, 'role', m.role, 'model', m.model, 'parts', p.parts) order by m.is_summary desc, m.seq), '[]'),
        case when count(*) filter (where not m.is_summary) = 2000 then max(m.seq) filter (where not m.is_summary) end
        into view, next_after
      from (
        (select id, seq, role, model, is_summary from messages where session_id = p_session and seq = v_summary)
        union all
        (select id, seq, role, model, is_summary from messages
          where session_id = p_session and seq >= v_first and not is_summary
            and not superseded and (role = 'user' or finish_reason is not null)
          order by seq limit 2000)
      ) m
      cross join lateral (
        select coalesce(json_agg(json_build_array(
          case when parts.compacted_at is null then parts.content else parts.content - 'output' end,
          parts.state,
          case when coalesce(parts.compacted_at, parts.media_stripped_at) is not null or parts.view_limit is not null then
            json_strip_nulls(json_build_object(
              'pruned', case when parts.compacted_at is not null then true end,
              'viewLimitChars', parts.view_limit,
              'mediaStripped', case when parts.media_stripped_at is not null then true end))
          end) order by parts.idx), '[]') as parts
        from parts where parts.message_id = m.id
      ) p;
    end $$`.execute(db);
}

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql`drop function baton_view`.execute(db);
  await sql`drop function baton_start_run`.execute(db);
  await sql`drop function baton_limit_run`.execute(db);
  await sql`drop function baton_lock_claimed_run`.execute(db);
  await sql`drop function baton_append_events`.execute(db);
  await sql`drop function baton_insert_events`.execute(db);
  await sql`drop function baton_public_id`.execute(db);
}
