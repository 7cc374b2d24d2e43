-- Claims a run for a worker and begins its job in one round trip: raises the epoch, sets the lease, drains the
-- inbox, opens the message, reads the view. `outcome` says why a run could not be claimed.
--
-- Called by claimRun (src/store/work/claims.ts).
--
-- Locks: session, run, then the worker id (baton_is_dead). Each lock is taken by a statement of its own and the
-- data is read by a later one: in READ COMMITTED a statement keeps the snapshot from before it waited for a lock,
-- and would miss what the previous holder committed meanwhile.
create or replace function baton_claim_run(
  p_run uuid, p_kind text, p_no integer, p_dispatch integer, p_claim uuid, p_worker text, p_lease_ms integer,
  p_engine integer, p_message uuid, p_tenant_limit integer, p_known_version bigint, p_known_seq bigint,
  p_known_message uuid, p_code text[]
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
  v_missing json;
begin
  select * into v_session from sessions where id = (select session_id from runs where id = p_run) for no key update;
  if not found then return json_build_object('outcome', 'gone'); end if;
  select * into v_run from runs where id = p_run for no key update;
  v_event_seq := v_session.event_seq;
  if v_run.status in ('completed', 'failed', 'cancelled', 'incomplete', 'requires_action') then
    -- The job of the step that failed the run is kept as its record, whichever worker takes it.
    return json_build_object('outcome', 'gone', 'failure', case when v_run.status = 'failed' and p_kind = 'step'
      and v_run.pending_no = p_no and v_run.pending_dispatch = p_dispatch + 1 then v_run.error end);
  end if;
  if v_run.pending_kind is distinct from p_kind or v_run.pending_no <> p_no or v_run.pending_dispatch <> p_dispatch then
    return json_build_object('outcome', 'stale');
  end if;
  if v_run.claim_id is distinct from p_claim then
    -- An expired lease alone does not free the run: Postgres may have been away. The reconciler decides.
    if v_run.claim_id is not null then return json_build_object('outcome', 'held'); end if;
    if v_run.pending_at > clock_timestamp() then
      return json_build_object('outcome', 'early',
        'waitMs', ceil(extract(epoch from v_run.pending_at - clock_timestamp()) * 1000));
    end if;
    if v_run.required_engine > p_engine then return json_build_object('outcome', 'engine'); end if;
    -- Names that sessions keep of tools in code (CODE_PREFIX in src/agents/tool-sources.ts).
    select json_agg(t.name) into v_missing from jsonb_array_elements(v_session.agent_snapshot -> 'tools') as s(tool),
      lateral (select s.tool #>> '{}' as name) as t
      where jsonb_typeof(s.tool) = 'string' and starts_with(t.name, 'code:') and t.name <> all(p_code);
    if v_missing is not null then return json_build_object('outcome', 'code', 'missing', v_missing); end if;
    if baton_is_dead(p_worker) then return json_build_object('outcome', 'dead'); end if;
    -- A cancelled run is only recovered and ended: it needs no slot.
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
    -- Trust the cached view of the worker only if the message after it still exists: a failover may have lost recent
    -- commits.
    select (select id from messages
        where run_id = p_run and step_no = p_no and role = 'assistant' and not superseded limit 1),
      v_session.view_version = p_known_version and exists (select 1 from messages
        where id = p_known_message and session_id = v_session.id and seq = p_known_seq + 1)
      into v_interrupted, v_is_known;
    if v_is_known then v_after := p_known_seq; end if;
  end if;
  if p_kind = 'step' and v_interrupted is null and v_run.cancel_requested_at is null
      and not baton_is_used_up(v_run) then
    v_begun := baton_begin_step(v_run, p_message, v_after);
    v_view := v_begun.view;
    v_next_after := v_begun.next_after;
    v_message_seq := v_begun.opened_seq;
    v_event_seq := v_begun.last_event_seq;
  else
    -- baton_begin_step raises the epoch of the session together with what else it changes.
    update sessions set epoch = v_run.epoch where id = v_session.id;
    if v_run.cancel_requested_at is null and p_kind <> 'step' then
      select begun.view, begun.next_after into v_view, v_next_after
      from baton_begin_maintenance(v_session.id, p_run) as begun;
      select event_seq into v_event_seq from sessions where id = v_session.id;
    elsif v_run.cancel_requested_at is null and v_interrupted = p_message then
      select page.view, page.next_after into v_view, v_next_after from baton_view(v_session.id, v_after) as page;
      select seq into v_message_seq from messages where id = p_message and session_id = v_session.id;
    end if;
  end if;
  return json_build_object(
    'outcome', 'claimed',
    'epoch', v_run.epoch,
    'cancelRequested', v_run.cancel_requested_at is not null,
    -- Where nothing began, the message that this claim opened before its reply was lost is interrupted as well.
    'interruptedMessageId', case when v_interrupted is distinct from p_message or v_view is null then v_interrupted end,
    'view', v_view,
    'viewAfterSeq', v_after,
    'viewNextAfter', v_next_after,
    'viewVersion', v_session.view_version,
    'messageSeq', v_message_seq,
    'eventSeq', v_event_seq,
    'facts', baton_claim_facts(v_session, v_run));
end $$;
