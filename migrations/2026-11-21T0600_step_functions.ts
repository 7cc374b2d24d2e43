import { type Kysely, sql } from 'kysely';

/** What a worker writes while it works on a step and when it ends it. Each is one round trip and one transaction. */
export async function up(db: Kysely<unknown>): Promise<void> {
  // Replaces whatever was streamed of the message by its final parts, of which none is running where none may start.
  // The caller holds both locks.
  await sql`
    create function baton_apply_response(p_session uuid, p_response jsonb, p_may_start boolean default true) returns void
    language plpgsql as $$
    declare
      v_message uuid := (p_response ->> 'messageId')::uuid;
      v_tenant text;
    begin
      if (p_response ->> 'superseded')::boolean
        and exists (select 1 from messages where id = v_message and finish_reason is not null) then
        raise exception 'message % is finished and cannot be superseded', v_message;
      end if;
      update messages set
        finish_reason = p_response ->> 'finishReason',
        model = p_response ->> 'model',
        usage = p_response -> 'usage',
        error = p_response -> 'error',
        superseded = coalesce((p_response ->> 'superseded')::boolean, superseded),
        finished_at = clock_timestamp()
        where id = v_message and session_id = p_session returning tenant_id into v_tenant;
      if not found then raise exception 'message % is not of the session', v_message; end if;
      with streamed as (delete from part_chunks where message_id = v_message)
        delete from parts where message_id = v_message;
      insert into parts
        (message_id, idx, session_id, tenant_id, type, content, tool_call_id, tool_name, state, started_at, finished_at)
        select v_message, e.ord - 1, p_session, v_tenant, e.part ->> 'type', e.part - 'state',
          e.part ->> 'toolCallId',
          e.part ->> 'toolName', made.state,
          case when made.state = 'running' then clock_timestamp() end,
          case when made.state in ('completed', 'error', 'denied') then clock_timestamp() end
        from jsonb_array_elements(p_response -> 'parts') with ordinality as e (part, ord), lateral (select
          case when e.part ->> 'state' = 'running' and not p_may_start then 'pending' else e.part ->> 'state' end
        ) as made (state);
    end $$`.execute(db);

  // Null: fenced. Calls that are to start with it may not any more when a cancel was requested.
  await sql`
    create function baton_write_response(p_run uuid, p_epoch bigint, p_claim uuid, p_response jsonb, p_events jsonb)
    returns jsonb language plpgsql as $$
    declare
      v_run runs := baton_lock_claimed_run(p_run, p_epoch, p_claim);
      v_message uuid := (p_response ->> 'messageId')::uuid;
      v_may_start boolean := v_run.cancel_requested_at is null;
    begin
      if v_run.id is null then return null; end if;
      -- Written again after a lost reply: what was to start then is running.
      if exists (select 1 from messages where id = v_message and finished_at is not null) then
        return jsonb_build_object(
          'mayStart', exists (select 1 from parts where message_id = v_message and state = 'running'),
          'eventSeq', (select event_seq from sessions where id = v_run.session_id));
      end if;
      perform baton_apply_response(v_run.session_id, p_response, v_may_start);
      return jsonb_build_object('mayStart', v_may_start,
        'eventSeq', baton_append_events(v_run.session_id, p_run, p_events));
    end $$`.execute(db);

  // Moves one call from one of the given states. False: it was in none of them, and nothing is written. An output
  // that was cut names its size before, and brings the whole of it as a blob, which equal ones of the tenant
  // share: the update locks a blob that is there, so that no collection can take it before the reference is
  // committed. What was said about a call of unknown outcome was said before it was started again, and is
  // forgotten where that outcome is unknown too.
  await sql`
    create function baton_move_call(p_session uuid, p_move jsonb, p_blob_bytes bytea) returns boolean language plpgsql as $$
    declare
      v_message uuid := (p_move ->> 'messageId')::uuid;
      v_idx integer := (p_move ->> 'index')::integer;
      v_to text := p_move ->> 'to';
      v_tenant text;
      v_blob uuid;
    begin
      update parts set
        state = v_to,
        answer = case when p_move ? 'forgetsAnswer' then null else answer end,
        content = case when p_move ? 'output' then content || jsonb_build_object('output', p_move -> 'output') else content end,
        truncated = truncated or p_move ? 'originalTokens',
        original_tokens = coalesce((p_move ->> 'originalTokens')::integer, original_tokens),
        started_at = case
          when v_to = 'running' then clock_timestamp()
          when v_to = 'pending' then null
          when p_move ? 'ranMs' then clock_timestamp() - make_interval(secs => (p_move ->> 'ranMs')::double precision / 1000)
          else started_at end,
        finished_at = case when v_to in ('completed', 'error', 'denied') then clock_timestamp() else finished_at end
        where session_id = p_session and message_id = v_message and idx = v_idx and p_move -> 'from' ? state
        returning tenant_id into v_tenant;
      if not found then return false; end if;
      if p_blob_bytes is not null then
        insert into blobs (id, tenant_id, sha256, media_type, size_bytes, bytes)
          values ((p_move -> 'blob' ->> 'id')::uuid, v_tenant, decode(p_move -> 'blob' ->> 'sha256', 'hex'),
            p_move -> 'blob' ->> 'mediaType', length(p_blob_bytes), p_blob_bytes)
          on conflict (tenant_id, sha256) do update set created_at = clock_timestamp() returning id into v_blob;
        insert into blob_refs (blob_id, session_id, tenant_id) values (v_blob, p_session, v_tenant)
          on conflict do nothing;
        update parts set content = content || jsonb_build_object('outputBlobId', baton_public_id('blob', v_blob))
          where message_id = v_message and idx = v_idx;
      end if;
      return true;
    end $$`.execute(db);

  // Moves calls, each as if it was the only one; the events of those that were moved are appended in that order. Null:
  // fenced. A call may not start any more when a cancel was requested, unless it is running already: then it has begun
  // before the cancel, and whoever repeats this lost the answer.
  await sql`
    create function baton_move_calls(p_run uuid, p_epoch bigint, p_claim uuid, p_moves jsonb, p_blobs bytea[])
    returns jsonb language plpgsql as $$
    declare
      v_run runs := baton_lock_claimed_run(p_run, p_epoch, p_claim);
      v_is_cancelled boolean := v_run.cancel_requested_at is not null;
      v_move jsonb;
      v_answer text;
      v_no integer := 0;
      v_answers jsonb := '[]';
      v_events jsonb := '[]';
    begin
      if v_run.id is null then return null; end if;
      for v_move in select e.move from jsonb_array_elements(p_moves) with ordinality as e (move, ord) order by e.ord loop
        v_no := v_no + 1;
        v_answer := case
          when v_is_cancelled and v_move ->> 'to' = 'running' and exists (select 1 from parts
            where session_id = v_run.session_id and message_id = (v_move ->> 'messageId')::uuid
              and idx = (v_move ->> 'index')::integer and v_move -> 'from' ? state) then 'cancelled'
          when baton_move_call(v_run.session_id, v_move, p_blobs[v_no]) then 'moved'
          else 'refused' end;
        v_answers := v_answers || to_jsonb(v_answer);
        if v_answer = 'moved' then v_events := v_events || (v_move -> 'events'); end if;
      end loop;
      return jsonb_build_object('answers', v_answers, 'eventSeq', baton_append_events(v_run.session_id, p_run, v_events));
    end $$`.execute(db);

  // Takes the planned branch that holds: whether a cancel was requested and whether messages wait is known only under
  // the lock. The caller holds both locks, and gives the run as it is under them. A run that waits for answers has no
  // job and no claim. A compaction or prune that somebody asked for goes before the next step; where the run ends, or
  // has nothing left but its final answer, it gets a run of its own. Returns the jobs to enqueue.
  await sql`
    create function baton_take_branch(p_run runs, p_finish jsonb) returns jsonb
    language plpgsql as $$
    declare
      v_run runs := p_run;
      v_session uuid := p_run.session_id;
      v_requested text;
      v_waiting boolean;
      v_takes boolean;
      v_events jsonb;
      v_branch_name text;
      v_branch jsonb;
      v_kind text;
      v_usage jsonb := p_finish -> 'usage';
      -- Null where the price of a model is not known: neither is the sum from then on.
      v_cost double precision := (p_finish ->> 'costUsd')::double precision;
      v_jobs jsonb := '[]';
      v_next_run uuid;
      v_after bigint;
      v_last bigint;
    begin
      select requested_maintenance, exists (select 1 from inbox
        where session_id = v_session and consumed_message_seq is null and run_id is not distinct from p_run.id)
        into v_requested, v_waiting from sessions where id = v_session;
      v_branch_name := case
        when v_run.cancel_requested_at is not null then 'ifCancelled'
        when v_waiting then 'ifMessagesWait'
        else 'otherwise' end;
      v_branch := p_finish -> 'next' -> v_branch_name;
      if v_branch ? 'calls' then
        update parts set
          state = call ->> 'state',
          required_action = call ->> 'requiredAction',
          answer = null,
          content = case when call ? 'output' then content || jsonb_build_object('output', call -> 'output') else content end,
          finished_at = case when call ? 'output' then clock_timestamp() end
          from jsonb_array_elements(v_branch -> 'calls') as changed (call)
          where message_id = (call ->> 'messageId')::uuid and idx = (call ->> 'index')::integer and session_id = v_session;
      end if;
      v_kind := v_branch ->> 'pendingKind';
      v_takes := v_kind = 'step' and v_requested is not null and not v_branch ? 'retryDelayMs'
        and not v_branch ? 'finalAnswer' and v_run.final_answer_for is null;
      if v_takes then v_kind := v_requested; end if;
      v_events := (p_finish -> 'events') || (v_branch -> 'events');
      if v_branch ->> 'status' = 'cancelled' then v_events := jsonb_set(v_events, '{-1,data,stillRan}', baton_still_ran(p_run.id)); end if;

      update runs set
        status = coalesce(v_branch ->> 'status', case when v_branch ? 'waitMs' then 'requires_action' end, status),
        status_reason = coalesce(v_branch ->> 'reason', status_reason),
        error = coalesce(v_branch -> 'error', error),
        pending_kind = v_kind,
        -- BullMQ ignores an id that it still knows, and a run comes back to a step after its compaction: never the same again.
        pending_dispatch = pending_dispatch + 1,
        attempt = case
          when v_branch ? 'retryDelayMs' then attempt + 1
          when v_branch ? 'waitMs' then attempt
          when (v_branch ->> 'pendingNo')::integer = pending_no then attempt
          else 1 end,
        pending_no = coalesce((v_branch ->> 'pendingNo')::integer, pending_no),
        pending_at = clock_timestamp()
          + make_interval(secs => coalesce((v_branch ->> 'retryDelayMs')::integer, (v_branch ->> 'postponeMs')::integer, 0) / 1000.0),
        next_check_at = null,
        -- Nobody waits beyond the deadline.
        approval_expires_at = case when v_branch ? 'waitMs' then least(
          clock_timestamp() + make_interval(secs => (v_branch ->> 'waitMs')::bigint / 1000.0), deadline_at) end,
        epoch = epoch + 1,
        claim_id = null,
        lease_owner = null,
        lease_expires_at = null,
        resume_count = case when v_branch ? 'retryDelayMs' then resume_count else 0 end,
        step_count = step_count + coalesce((p_finish ->> 'steps')::integer, 0),
        input_tokens = input_tokens + (v_usage ->> 'inputTokens')::bigint,
        output_tokens = output_tokens + (v_usage ->> 'outputTokens')::bigint,
        reasoning_tokens = reasoning_tokens + (v_usage ->> 'reasoningTokens')::bigint,
        cache_read_tokens = cache_read_tokens + (v_usage ->> 'cacheReadTokens')::bigint,
        cache_write_tokens = cache_write_tokens + (v_usage ->> 'cacheWriteTokens')::bigint,
        cost_usd = cost_usd + v_cost,
        -- What another attempt is linked to.
        attempt_traceparent = case when v_branch ? 'retryDelayMs' then attempt_traceparent end,
        final_answer_for = coalesce(v_branch -> 'finalAnswer' ->> 'for', final_answer_for),
        final_answer_until = case when v_branch ? 'finalAnswer'
          then clock_timestamp() + make_interval(secs => (v_branch -> 'finalAnswer' ->> 'withinMs')::integer / 1000.0)
          else final_answer_until end,
        finished_at = case when v_branch ? 'status' then clock_timestamp() end
        where id = p_run.id returning * into v_run;
      -- Told by the clock that the attempt goes by, which is not the worker's.
      if v_events #>> '{-1,type}' = 'step:retrying' then
        v_events := jsonb_set(v_events, '{-1,data,nextAttemptAt}',
          to_jsonb(to_char(v_run.pending_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')));
      end if;
      -- Everything that the end of a step changes of its session at once: the row is a wide one.
      update sessions set
        epoch = epoch + 1,
        event_seq = event_seq + jsonb_array_length(v_events),
        updated_at = clock_timestamp(),
        context_state = coalesce(p_finish -> 'contextState', context_state)
          || case when v_takes then baton_requested_state() else '{}' end,
        requested_maintenance = case when v_takes then null else requested_maintenance end,
        status = case when v_branch ? 'status' then 'idle' when v_branch ? 'waitMs' then 'requires_action' else status end,
        active_run_id = case when v_branch ? 'status' then null else active_run_id end,
        input_tokens = input_tokens + (v_usage ->> 'inputTokens')::bigint,
        output_tokens = output_tokens + (v_usage ->> 'outputTokens')::bigint,
        reasoning_tokens = reasoning_tokens + (v_usage ->> 'reasoningTokens')::bigint,
        cache_read_tokens = cache_read_tokens + (v_usage ->> 'cacheReadTokens')::bigint,
        cache_write_tokens = cache_write_tokens + (v_usage ->> 'cacheWriteTokens')::bigint,
        cost_usd = cost_usd + v_cost
        where id = v_session returning event_seq, requested_maintenance into v_last, v_requested;
      perform baton_insert_events(v_session, v_run.tenant_id, p_run.id, v_last, v_events);

      -- What came after a cancel, or to a session that only tidied itself up, was not meant for the run that ends here.
      v_after := case
        when v_run.kind = 'maintenance' and v_run.cancel_requested_at is null then v_run.start_inbox_seq
        when v_branch ? 'takesUpWaiting' then 0
        else v_run.cancel_inbox_seq end;
      if v_kind is not null then
        v_jobs := jsonb_build_array(baton_pending_job(v_run));
      elsif v_branch ? 'waitMs' then
        null;
      elsif exists (select 1 from sessions where id = v_session and requested_resume is not null) or exists (
        select 1 from inbox where session_id = v_session and consumed_message_seq is null
          and (run_id is null or run_id = p_run.id) and seq > v_after
      ) then
        select coalesce(next_run_id, (p_finish ->> 'nextRunId')::uuid) into v_next_run from sessions where id = v_session;
        -- It belongs to the request that it answers, where that is known.
        v_last := baton_start_run(v_session, v_next_run, 'task', coalesce((
          select traceparent from inbox where session_id = v_session and consumed_message_seq is null
            and traceparent is not null order by seq limit 1), v_run.traceparent));
        v_jobs := jsonb_build_array(baton_job_of(v_next_run));
      elsif v_requested is not null or p_finish ? 'maintenanceAtEnd' then
        v_next_run := (p_finish ->> 'nextRunId')::uuid;
        if v_requested is not null then perform baton_take_requested(v_session); end if;
        v_requested := coalesce(v_requested, p_finish ->> 'maintenanceAtEnd');
        v_last := baton_start_run(v_session, v_next_run, 'maintenance', v_run.traceparent, v_requested);
        v_jobs := jsonb_build_array(baton_job_of(v_next_run));
      end if;
      return jsonb_build_object('branch', v_branch_name, 'eventSeq', v_last, 'jobs', v_jobs);
    end $$`.execute(db);

  // Nothing is open any more: what a run that waited for answers has to do is the same step again. The caller holds
  // both locks. Null: the run waits no longer.
  await sql`
    create function baton_resume_run(p_session uuid, p_run uuid) returns jsonb
    language plpgsql as $$
    begin
      update runs set status = 'running', pending_kind = 'step', pending_dispatch = pending_dispatch + 1,
        pending_at = clock_timestamp(), next_check_at = null, approval_expires_at = null
        where id = p_run and status = 'requires_action';
      if not found then return null; end if;
      update sessions set status = 'busy' where id = p_session;
      return baton_job_of(p_run);
    end $$`.execute(db);

  // What is pending of a run, as a job.
  await sql`
    create function baton_pending_job(p_run runs) returns jsonb language sql stable as $$
      select jsonb_build_object('runId', p_run.id, 'kind', p_run.pending_kind, 'no', p_run.pending_no,
        'dispatch', p_run.pending_dispatch)
    $$`.execute(db);
  await sql`
    create function baton_job_of(p_run uuid) returns jsonb language plpgsql stable as $$
    begin
      return (select baton_pending_job(runs) from runs where id = p_run);
    end $$`.execute(db);

  // What somebody asked for becomes what the context layer has before it.
  await sql`
    create function baton_requested_state() returns jsonb language sql immutable as $$
      select '{"pending": {"reason": "manual", "force": true, "stripMedia": false}}'::jsonb
    $$`.execute(db);

  await sql`
    create function baton_take_requested(p_session uuid) returns void language plpgsql as $$
    begin
      update sessions set requested_maintenance = null, context_state = context_state || baton_requested_state()
        where id = p_session;
    end $$`.execute(db);

  // Ends the step and decides what comes next. The outcomes that come with it are of calls that this claim has started:
  // nobody else can have moved them.
  await sql`
    create function baton_finish_step(p_run uuid, p_epoch bigint, p_claim uuid, p_finish jsonb, p_blobs bytea[])
    returns jsonb language plpgsql as $$
    declare
      v_move jsonb;
      v_no integer := 0;
      v_run runs := baton_lock_claimed_run(p_run, p_epoch, p_claim);
    begin
      if v_run.id is null then return null; end if;
      -- What was streamed is dropped for another attempt alone.
      if p_finish ? 'keptIfCancelled' and v_run.cancel_requested_at is not null then
        p_finish := p_finish || (p_finish -> 'keptIfCancelled');
      end if;
      if p_finish ? 'response' then perform baton_apply_response(v_run.session_id, p_finish -> 'response'); end if;
      for v_move in select e.move from jsonb_array_elements(p_finish -> 'moves') with ordinality as e (move, ord) order by e.ord loop
        v_no := v_no + 1;
        if not baton_move_call(v_run.session_id, v_move, p_blobs[v_no]) then
          raise exception 'a call of message % is not %', v_move ->> 'messageId', v_move -> 'from';
        end if;
      end loop;
      return baton_take_branch(v_run, p_finish);
    end $$`.execute(db);
}

export async function down(db: Kysely<unknown>): Promise<void> {
  for (const name of [
    'baton_finish_step',
    'baton_take_requested',
    'baton_requested_state',
    'baton_resume_run',
    'baton_job_of',
    'baton_pending_job',
    'baton_take_branch',
    'baton_move_calls',
    'baton_move_call',
    'baton_write_response',
    'baton_apply_response',
  ]) {
    await sql`drop function ${sql.ref(name)}`.execute(db);
  }
}
