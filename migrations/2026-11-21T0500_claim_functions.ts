import { type Kysely, sql } from 'kysely';

/** Claim: who owns the run, and the start of its step, in one round trip. */
export async function up(db: Kysely<unknown>): Promise<void> {
  // The event of a message of the user that is in the transcript now. It has the parts of a small one; of a large one it
  // says how large it is and where it is read.
  await sql`
    create function baton_message_created(p_session uuid, p_message uuid, p_seq bigint, p_parts jsonb, p_bytes bigint)
    returns jsonb language plpgsql stable as $$
    begin
      return jsonb_build_object('type', 'message:created', 'data', jsonb_build_object(
        'messageId', baton_public_id('msg', p_message), 'seq', p_seq, 'role', 'user') || case
          when p_bytes <= 16384 then jsonb_build_object('parts', p_parts)
          else jsonb_build_object('contentRef', jsonb_build_object(
            'sizeBytes', p_bytes,
            'href', '/v1/sessions/' || baton_public_id('ses', p_session) || '/messages?after=' || p_seq - 1 || '&limit=1')) end);
    end $$`.execute(db);

  // The caller holds the locks of the session and of the claimed run. What waits for this run becomes one message: as it is
  // when it is alone, else each under a label and in the order of arrival. It has the id of the first. At most 100
  // messages of 1 MiB together, and at least one: the rest waits for the next step. `is not distinct from` keeps the
  // planner with the few that wait: by its run an index would find all that ever came.
  await sql`
    create function baton_drain_inbox(p_session uuid, p_run uuid, p_step integer) returns bigint
    language plpgsql as $$
    declare
      v_tenant text;
      v_upto bigint;
      v_bytes bigint;
      v_seq bigint;
      v_message uuid;
      v_items jsonb;
      v_ids jsonb;
      v_parts jsonb;
    begin
      select max(seq), max(bytes) into v_upto, v_bytes from (
        select seq, row_number() over by_seq as no, sum(content_bytes) over by_seq as bytes from inbox
          where session_id = p_session and consumed_message_seq is null and run_id is not distinct from p_run
          window by_seq as (order by seq rows unbounded preceding) limit 100
      ) as waiting where no = 1 or bytes <= 1048576;
      if v_upto is null then return null; end if;
      select jsonb_agg(jsonb_build_object('id', baton_public_id('msg', id), 'enqueuedAt', enqueued_at, 'delivery', delivery) order by seq),
        jsonb_agg(baton_public_id('msg', id) order by seq), (array_agg(id order by seq))[1]
        into v_items, v_ids, v_message from inbox
        where session_id = p_session and consumed_message_seq is null and run_id is not distinct from p_run and seq <= v_upto;
      with taken as (
        select content, row_number() over (order by seq) as no, count(*) over () as total from inbox
        where session_id = p_session and consumed_message_seq is null and run_id is not distinct from p_run and seq <= v_upto
      ), labelled as (
        select no, content, case when total = 1 then '' when total > 2 then '[' || no || ']: '
          when no = 1 then 'First: ' else 'Also: ' end as label
        from taken
      ), pieces as (
        -- An image that comes first has its label before it.
        select no, 0 as ord, jsonb_build_object('type', 'text', 'text', rtrim(label)) as part
          from labelled where label <> '' and content -> 0 ->> 'type' <> 'text'
        union all
        select no, e.ord, case when e.ord = 1 and label <> '' and e.part ->> 'type' = 'text'
            then jsonb_set(e.part, '{text}', to_jsonb(label || (e.part ->> 'text'))) else e.part end
          from labelled, jsonb_array_elements(content) with ordinality as e (part, ord)
      )
      select jsonb_agg(part order by no, ord) into v_parts from pieces;
      update sessions set message_seq = message_seq + 1
        where id = p_session returning message_seq, tenant_id into v_seq, v_tenant;
      update inbox set consumed_message_seq = v_seq, consumed_at = clock_timestamp()
        where session_id = p_session and consumed_message_seq is null and run_id is not distinct from p_run and seq <= v_upto;
      insert into messages (id, tenant_id, session_id, seq, role, run_id, step_no, metadata, finished_at)
        values (v_message, v_tenant, p_session, v_seq, 'user', p_run, p_step,
          jsonb_build_object('inbox', v_items), clock_timestamp());
      insert into parts (message_id, idx, session_id, tenant_id, type, content)
        select v_message, e.ord - 1, p_session, v_tenant, e.part ->> 'type', e.part
        from jsonb_array_elements(v_parts) with ordinality as e (part, ord);
      perform baton_append_events(p_session, p_run, jsonb_build_array(
        jsonb_build_object('type', 'message:dequeued', 'data', jsonb_build_object(
          'count', jsonb_array_length(v_ids), 'ids', v_ids, 'coalesced', jsonb_array_length(v_ids) > 1)),
        baton_message_created(p_session, v_message, v_seq, v_parts, v_bytes)));
      return v_seq;
    end $$`.execute(db);

  // A run that has used up what it may use takes up nothing more: what waits gets a run of its own. One that has taken
  // up nothing yet does so first, or the message that started it would start it again and again. Its final answer is
  // measured by a time of its own alone.
  await sql`
    create function baton_is_used_up(p_run runs) returns boolean language plpgsql stable as $$
    begin
      if p_run.final_answer_for is not null then return p_run.final_answer_until <= clock_timestamp(); end if;
      return p_run.request_upto_seq > 0 and (
        coalesce(p_run.deadline_at <= clock_timestamp(), false)
        or coalesce(p_run.input_tokens + p_run.output_tokens >= p_run.budget_tokens, false)
        -- A cost that is not known may be any.
        or coalesce(p_run.cost_usd >= p_run.budget_cost_usd, p_run.budget_cost_usd is not null));
    end $$`.execute(db);

  // Drains the inbox, opens the assistant's message and returns the view after `p_after`, or its first page, with the
  // numbers of the message and of the session's last event. The session takes the epoch of the run as it is given. The
  // caller holds both locks.
  await sql`
    create function baton_begin_step(p_run runs, p_message uuid, p_after bigint, out view json, out next_after bigint,
      out opened_seq bigint, out last_event_seq bigint)
    language plpgsql as $$
    declare
      v_upto bigint;
      v_events jsonb := '[]';
    begin
      -- A final answer hears nothing new: what waits is for a run that may still do something about it.
      if p_run.final_answer_for is null then
        v_upto := baton_drain_inbox(p_run.session_id, p_run.id, p_run.pending_no);
      end if;
      if v_upto is not null or p_run.started_at is null then
        update runs set request_upto_seq = coalesce(v_upto, request_upto_seq),
          started_at = coalesce(started_at, clock_timestamp()) where id = p_run.id;
      end if;
      if p_run.started_at is null then
        v_events := v_events || jsonb_build_object(
          'type', 'run:started', 'data', jsonb_build_object('runId', baton_public_id('run', p_run.id)));
      end if;
      v_events := v_events || jsonb_build_object('type', 'step:started', 'data', jsonb_build_object(
        'runId', baton_public_id('run', p_run.id), 'step', p_run.pending_no, 'attempt', p_run.attempt,
        'messageId', baton_public_id('msg', p_message))
          || jsonb_strip_nulls(jsonb_build_object('finalAnswerFor', p_run.final_answer_for)));
      -- One update of the row for all of them: it is a wide one, and every step writes it often enough.
      update sessions set epoch = p_run.epoch, message_seq = message_seq + 1,
        event_seq = event_seq + jsonb_array_length(v_events), updated_at = clock_timestamp()
        where id = p_run.session_id returning message_seq, event_seq into opened_seq, last_event_seq;
      insert into messages (id, tenant_id, session_id, seq, role, run_id, step_no, attempt, epoch)
        values (p_message, p_run.tenant_id, p_run.session_id, opened_seq, 'assistant', p_run.id, p_run.pending_no,
          p_run.attempt, p_run.epoch);
      perform baton_insert_events(p_run.session_id, p_run.tenant_id, p_run.id, last_event_seq, v_events);
      select page.view, page.next_after into view, next_after from baton_view(p_run.session_id, p_after) as page;
    end $$`.execute(db);

  // A compaction or a prune reads the view and drains nothing: what waits is for the next step.
  await sql`
    create function baton_begin_maintenance(p_session uuid, p_run uuid, out view json, out next_after bigint)
    language plpgsql as $$
    begin
      update runs set started_at = clock_timestamp() where id = p_run and started_at is null;
      if found then
        perform baton_append_events(p_session, p_run, jsonb_build_array(jsonb_build_object(
          'type', 'run:started', 'data', jsonb_build_object('runId', baton_public_id('run', p_run)))));
      end if;
      select page.view, page.next_after into view, next_after from baton_view(p_session) as page;
    end $$`.execute(db);

  // Claims the run with one of its tenant's slots. False: there is none, or those that were held back before have a
  // right to what there is. Who takes the same slot at the same moment waits for the other at the unique index, and
  // looks again; a slot is free as soon as its run is not claimed any more, whatever ended the claim.
  await sql`
    create function baton_take_slot(p_run runs, p_claim uuid, p_limit integer) returns boolean language plpgsql as $$
    declare
      v_free integer[];
      v_before integer;
    begin
      loop
        select coalesce(array_agg(slot order by random()), '{}') into v_free from generate_series(1, p_limit) as slot
          where not exists (select 1 from runs
            where tenant_id = p_run.tenant_id and tenant_slot = slot and claim_id is not null);
        select count(*) into v_before from (select 1 from runs
          where tenant_id = p_run.tenant_id and throttled_at is not null
            and (created_at, id) < (p_run.created_at, p_run.id) limit p_limit) as earlier;
        if cardinality(v_free) <= v_before then return false; end if;
        begin
          update runs set claim_id = p_claim, tenant_slot = v_free[1] where id = p_run.id;
          return true;
        exception when unique_violation then
          null;
        end;
      end loop;
    end $$`.execute(db);

  // Gives those of the tenant's runs that were held back and have waited longest to the queue, as many as there are
  // slots that nobody has or is about to take: the next step of a run that goes on, or a run that was admitted a moment
  // ago. Returns their jobs. A limit of 0 holds nobody back.
  await sql`
    create function baton_release_throttled(p_tenant text, p_limit integer, p_most integer) returns jsonb language plpgsql as $$
    declare
      v_room integer := p_most;
      v_jobs jsonb;
    begin
      if not exists (select 1 from runs where tenant_id = p_tenant and throttled_at is not null) then return '[]'; end if;
      if p_limit > 0 then
        v_room := least(p_most, p_limit
          - (select count(*) from runs where tenant_id = p_tenant and claim_id is not null and tenant_slot is not null)
          - (select count(*) from runs
              where tenant_id = p_tenant and claim_id is null and pending_kind is not null and throttled_at is null
                and status in ('queued', 'running', 'cancelling') and (started_at is not null or pending_dispatch > 1)
                and coalesce(next_check_at, pending_at) > (select clock_timestamp() - interval '10 seconds')
                and pending_at <= clock_timestamp()));
      end if;
      with admitted as (
        update runs set throttled_at = null, pending_dispatch = pending_dispatch + 1, pending_at = clock_timestamp(),
          next_check_at = null
          where id in (select id from runs where tenant_id = p_tenant and throttled_at is not null
            order by created_at, id limit greatest(v_room, 0) for no key update skip locked)
          returning id, created_at, pending_kind, pending_no, pending_dispatch
      )
      select coalesce(jsonb_agg(jsonb_build_object('runId', id, 'kind', pending_kind, 'no', pending_no,
          'dispatch', pending_dispatch) order by created_at, id), '[]') into v_jobs from admitted;
      return v_jobs;
    end $$`.execute(db);

  // A worker's claims and its burial keep apart by a lock of its id, which claims share: a claim commits before the
  // burial looks at what the worker has in hand, or sees that it is buried. Comes after the session's and the run's;
  // who buries holds no other one.
  await sql`
    create function baton_lock_burial(p_worker text) returns void language plpgsql as $$
    begin
      perform pg_advisory_xact_lock(1652651120, hashtext(p_worker));
    end $$`.execute(db);

  await sql`
    create function baton_is_dead(p_worker text) returns boolean language plpgsql as $$
    begin
      perform pg_advisory_xact_lock_shared(1652651120, hashtext(p_worker));
      return exists (select 1 from dead_workers where id = p_worker);
    end $$`.execute(db);

  await sql`
    create function baton_claim_run(
      p_run uuid, p_kind text, p_no integer, p_dispatch integer, p_claim uuid, p_worker text, p_lease_ms integer,
      p_engine integer, p_message uuid, p_tenant_limit integer, p_known_version bigint, p_known_seq bigint,
      p_known_message uuid
    ) returns json language plpgsql as $$
    declare
      v_session sessions;
      v_run runs;
      v_interrupted uuid;
      v_is_known boolean;
      v_begun record;
      v_view json;
      v_next_after bigint;
      v_message_seq bigint;
      v_event_seq bigint;
      v_after bigint := 0;
      v_needs_slot boolean;
    begin
      select * into v_session from sessions where id = (select session_id from runs where id = p_run) for no key update;
      if not found then return json_build_object('outcome', 'gone'); end if;
      select * into v_run from runs where id = p_run for no key update;
      v_event_seq := v_session.event_seq;
      if v_run.status in ('completed', 'failed', 'cancelled', 'incomplete', 'requires_action') then
        return json_build_object('outcome', 'gone');
      end if;
      if v_run.pending_kind is distinct from p_kind or v_run.pending_no <> p_no or v_run.pending_dispatch <> p_dispatch then
        return json_build_object('outcome', 'stale');
      end if;
      if v_run.claim_id is distinct from p_claim then
        -- Whether an expired lease means a lost worker is the reconciler's to judge: Postgres may have been away.
        if v_run.claim_id is not null then return json_build_object('outcome', 'held'); end if;
        if v_run.pending_at > clock_timestamp() then
          return json_build_object('outcome', 'early',
            'waitMs', ceil(extract(epoch from v_run.pending_at - clock_timestamp()) * 1000));
        end if;
        if v_run.required_engine > p_engine then return json_build_object('outcome', 'engine'); end if;
        if baton_is_dead(p_worker) then return json_build_object('outcome', 'dead'); end if;
        -- One that is only to be settled after a cancel waits for nobody.
        v_needs_slot := p_tenant_limit > 0 and v_run.cancel_requested_at is null;
        if v_needs_slot and not baton_take_slot(v_run, p_claim, p_tenant_limit) then
          update runs set throttled_at = clock_timestamp() where id = p_run;
          return json_build_object('outcome', 'busy');
        end if;
        update runs set
          status = case when status = 'queued' then 'running' else status end,
          epoch = v_session.epoch + 1,
          claim_id = p_claim,
          lease_owner = p_worker,
          lease_expires_at = clock_timestamp() + make_interval(secs => p_lease_ms / 1000.0),
          next_check_at = null,
          throttled_at = null,
          tenant_slot = case when v_needs_slot then tenant_slot end
          where id = p_run returning * into v_run;
      end if;
      if p_kind = 'step' then
        -- What is known ends before a message that is still there: Postgres itself may have lost the last commits (a
        -- failover).
        select (select id from messages
            where run_id = p_run and step_no = p_no and role = 'assistant' and not superseded limit 1),
          v_session.view_version = p_known_version and exists (select 1 from messages
            where id = p_known_message and session_id = v_session.id and seq = p_known_seq + 1)
          into v_interrupted, v_is_known;
        if v_is_known then v_after := p_known_seq; end if;
      end if;
      if p_kind = 'step' and v_interrupted is null and v_run.cancel_requested_at is null and not baton_is_used_up(v_run) then
        v_begun := baton_begin_step(v_run, p_message, v_after);
        v_view := v_begun.view;
        v_next_after := v_begun.next_after;
        v_message_seq := v_begun.opened_seq;
        v_event_seq := v_begun.last_event_seq;
      else
        -- The claim itself; a step that begins raises the epoch with what it changes anyway.
        update sessions set epoch = v_run.epoch where id = v_session.id;
        if v_run.cancel_requested_at is null and p_kind <> 'step' then
          select begun.view, begun.next_after into v_view, v_next_after from baton_begin_maintenance(v_session.id, p_run) as begun;
          select event_seq into v_event_seq from sessions where id = v_session.id;
        elsif v_run.cancel_requested_at is null and v_interrupted = p_message then
          select page.view, page.next_after into v_view, v_next_after from baton_view(v_session.id, v_after) as page;
          select seq into v_message_seq from messages where id = p_message;
        end if;
      end if;
      return json_build_object(
        'outcome', 'claimed',
        'epoch', v_run.epoch,
        'cancelRequested', v_run.cancel_requested_at is not null,
        -- The message of this very claim, whose reply was lost, is left over as well where nothing is begun any more.
        'interruptedMessageId', case when v_interrupted is distinct from p_message or v_view is null then v_interrupted end,
        'view', v_view,
        'viewAfterSeq', v_after,
        'viewNextAfter', v_next_after,
        'viewVersion', v_session.view_version,
        'messageSeq', v_message_seq,
        'eventSeq', v_event_seq,
        'modelMemory', baton_model_memory(v_session.agent_snapshot ->> 'model', v_session.tenant_id),
        'session', json_build_object('id', v_session.id, 'tenantId', v_session.tenant_id,
          'agentName', v_session.agent_name, 'agentSnapshot', v_session.agent_snapshot,
          'contextState', v_session.context_state),
        'run', json_build_object('id', v_run.id, 'kind', v_run.kind, 'attempt', v_run.attempt, 'stepCount', v_run.step_count,
          'maxSteps', v_run.max_steps, 'budget', json_build_object(
            'maxTokens', v_run.budget_tokens, 'maxCostUsd', v_run.budget_cost_usd,
            'usedTokens', v_run.input_tokens + v_run.output_tokens, 'usedCostUsd', v_run.cost_usd),
          'finalAnswerFor', v_run.final_answer_for,
          'timeLeftMs', ceil(extract(epoch from coalesce(v_run.final_answer_until, v_run.deadline_at) - clock_timestamp()) * 1000),
          'resumeCount', v_run.resume_count,
          'waitedMs', greatest(0, round(extract(epoch from clock_timestamp() - v_run.pending_at) * 1000)), 'traceparent', v_run.traceparent,
          'attemptTraceparent', v_run.attempt_traceparent));
    end $$`.execute(db);

  // What the claim would have done, had nothing been left over: a broken answer is superseded, and the step begins.
  // Null: fenced. No view: a cancel was requested meanwhile, or the run is used up, so nothing is drained, nothing
  // begins, and what is left over stays as it is: nothing comes in its place.
  await sql`
    create function baton_restart_step(p_run uuid, p_epoch bigint, p_claim uuid, p_message uuid, p_broken jsonb) returns json
    language plpgsql as $$
    declare
      v_run runs := baton_lock_claimed_run(p_run, p_epoch, p_claim);
      v_view json;
      v_next_after bigint;
    begin
      if v_run.id is null then return null; end if;
      if v_run.cancel_requested_at is null and not baton_is_used_up(v_run) then
        -- Asked again after a lost reply.
        if exists (select 1 from messages where id = p_message) then
          select page.view, page.next_after into v_view, v_next_after from baton_view(v_run.session_id) as page;
        else
          if p_broken is not null then
            perform baton_apply_response(v_run.session_id, p_broken -> 'response');
            perform baton_append_events(v_run.session_id, p_run, p_broken -> 'events');
          end if;
          select begun.view, begun.next_after into v_view, v_next_after from baton_begin_step(v_run, p_message, 0) as begun;
        end if;
      end if;
      return json_build_object('sessionId', v_run.session_id, 'view', v_view, 'viewNextAfter', v_next_after, 'messageSeq', (select seq from messages where id = p_message),
        'eventSeq', (select event_seq from sessions where id = v_run.session_id));
    end $$`.execute(db);
}

export async function down(db: Kysely<unknown>): Promise<void> {
  for (const name of [
    'baton_restart_step',
    'baton_claim_run',
    'baton_is_dead',
    'baton_lock_burial',
    'baton_release_throttled',
    'baton_take_slot',
    'baton_begin_maintenance',
    'baton_begin_step',
    'baton_is_used_up',
    'baton_drain_inbox',
    'baton_message_created',
  ]) {
    await sql`drop function ${sql.ref(name)}`.execute(db);
  }
}
