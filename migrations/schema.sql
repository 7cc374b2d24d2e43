-- The schema after all migrations, with the functions of src/store/sql. Written by "npm run schema:dump"; never
-- change it here.

create sequence audit_log_seq;
create sequence worker_lock_keys;

create table api_keys (
  id uuid not null,
  tenant_id text default 'default'::text not null,
  name text not null,
  shown text not null,
  key_sha256 bytea not null,
  scopes text[] not null,
  created_at timestamp with time zone default clock_timestamp() not null,
  last_used_at timestamp with time zone,
  expires_at timestamp with time zone,
  revoked_at timestamp with time zone,
  constraint api_keys_pkey PRIMARY KEY (id),
  constraint api_keys_key_sha256_key UNIQUE (key_sha256),
  constraint api_keys_key_sha256_check CHECK ((length(key_sha256) = 32)),
  constraint api_keys_scopes_check CHECK ((scopes <@ ARRAY['read'::text, 'write'::text, 'admin'::text, 'operator'::text]))
);

create table audit_log (
  seq bigint default nextval('audit_log_seq'::regclass) not null,
  tenant_id text default 'default'::text not null,
  key_id uuid,
  action text not null,
  target text not null,
  created_at timestamp with time zone default clock_timestamp() not null,
  constraint audit_log_pkey PRIMARY KEY (seq)
);

create table blob_refs (
  blob_id uuid not null,
  session_id uuid not null,
  tenant_id text default 'default'::text not null,
  constraint blob_refs_pkey PRIMARY KEY (blob_id, session_id)
);

create table blobs (
  id uuid not null,
  tenant_id text default 'default'::text not null,
  sha256 bytea not null,
  media_type text not null,
  size_bytes bigint not null,
  bytes bytea,
  url text,
  created_at timestamp with time zone default clock_timestamp() not null,
  constraint blobs_pkey PRIMARY KEY (id),
  constraint blobs_tenant_id_sha256_key UNIQUE (tenant_id, sha256),
  constraint blobs_check CHECK (((bytes IS NULL) <> (url IS NULL)))
);

create table compactions (
  id uuid not null,
  tenant_id text default 'default'::text not null,
  session_id uuid not null,
  run_id uuid,
  round integer not null,
  strategy text not null,
  reason text not null,
  state text default 'running'::text not null,
  from_seq bigint not null,
  upto_seq bigint not null,
  summary_message_seq bigint,
  tokens_before integer not null,
  tokens_after integer,
  attempts integer default 0 not null,
  cost_usd double precision default 0,
  usage jsonb,
  error jsonb,
  started_at timestamp with time zone default clock_timestamp() not null,
  finished_at timestamp with time zone,
  constraint compactions_pkey PRIMARY KEY (id),
  constraint compactions_session_id_round_key UNIQUE (session_id, round),
  constraint compactions_state_check CHECK ((state = ANY (ARRAY['running'::text, 'completed'::text, 'rejected'::text, 'failed'::text])))
);

create table dead_workers (
  id text not null,
  died_at timestamp with time zone default clock_timestamp() not null,
  constraint dead_workers_pkey PRIMARY KEY (id)
);

create table deleted_usage (
  tenant_id text not null,
  day date not null,
  tokens bigint not null,
  cost_usd double precision not null,
  constraint deleted_usage_pkey PRIMARY KEY (tenant_id)
);

create table events (
  session_id uuid not null,
  seq bigint not null,
  tenant_id text default 'default'::text not null,
  run_id uuid,
  type text not null,
  data jsonb not null,
  data_bytes integer generated always as (octet_length((data)::text)) stored not null,
  created_at timestamp with time zone default clock_timestamp() not null,
  constraint events_pkey PRIMARY KEY (session_id, seq)
);

create table idempotency_keys (
  tenant_id text default 'default'::text not null,
  route text not null,
  key text not null,
  request_sha256 bytea not null,
  response_status integer not null,
  response_body jsonb not null,
  created_at timestamp with time zone default clock_timestamp() not null,
  expires_at timestamp with time zone not null,
  constraint idempotency_keys_pkey PRIMARY KEY (tenant_id, route, key)
);

create table inbox (
  session_id uuid not null,
  seq bigint not null,
  tenant_id text default 'default'::text not null,
  id uuid not null,
  delivery text default 'steer'::text not null,
  content jsonb not null,
  content_bytes integer generated always as (octet_length((content)::text)) stored not null,
  limits jsonb default '{}'::jsonb not null,
  run_id uuid,
  traceparent text,
  enqueued_at timestamp with time zone default clock_timestamp() not null,
  consumed_message_seq bigint,
  consumed_at timestamp with time zone,
  constraint inbox_pkey PRIMARY KEY (session_id, seq),
  constraint inbox_id_key UNIQUE (id),
  constraint inbox_delivery_check CHECK ((delivery = ANY (ARRAY['steer'::text, 'followup'::text, 'interrupt'::text])))
);

create table messages (
  id uuid not null,
  tenant_id text default 'default'::text not null,
  session_id uuid not null,
  seq bigint not null,
  role text not null,
  run_id uuid,
  step_no integer,
  attempt integer,
  epoch bigint,
  model text,
  finish_reason text,
  is_summary boolean default false not null,
  superseded boolean default false not null,
  usage jsonb,
  error jsonb,
  metadata jsonb default '{}'::jsonb not null,
  created_at timestamp with time zone default clock_timestamp() not null,
  finished_at timestamp with time zone,
  constraint messages_pkey PRIMARY KEY (id),
  constraint messages_session_id_seq_key UNIQUE (session_id, seq),
  constraint messages_role_check CHECK ((role = ANY (ARRAY['user'::text, 'assistant'::text])))
);

create table model_limits (
  provider text not null,
  endpoint text not null,
  model text not null,
  context_tokens integer,
  input_tokens integer,
  estimator_prior double precision,
  tools_refused_at timestamp with time zone,
  learned_at timestamp with time zone default clock_timestamp() not null,
  constraint model_limits_pkey PRIMARY KEY (provider, endpoint, model)
);

create table part_chunks (
  message_id uuid not null,
  char_offset integer not null,
  part_idx integer not null,
  type text not null,
  chunk text not null,
  constraint part_chunks_pkey PRIMARY KEY (message_id, char_offset),
  constraint part_chunks_type_check CHECK ((type = ANY (ARRAY['text'::text, 'reasoning'::text])))
);

create table parts (
  message_id uuid not null,
  idx integer not null,
  session_id uuid not null,
  tenant_id text default 'default'::text not null,
  type text not null,
  content jsonb not null,
  tool_call_id text,
  tool_name text,
  state text,
  required_action text,
  answer jsonb,
  started_at timestamp with time zone,
  finished_at timestamp with time zone,
  truncated boolean default false not null,
  compacted_at timestamp with time zone,
  view_limit integer,
  media_stripped_at timestamp with time zone,
  original_tokens integer,
  content_bytes integer generated always as (octet_length((content)::text)) stored not null,
  constraint parts_pkey PRIMARY KEY (message_id, idx),
  constraint parts_check CHECK (((type = 'tool'::text) = (state IS NOT NULL))),
  constraint parts_required_action_check CHECK ((required_action = ANY (ARRAY['approval'::text, 'output'::text, 'unknown_outcome'::text]))),
  constraint parts_state_check CHECK ((state = ANY (ARRAY['pending'::text, 'awaiting_approval'::text, 'awaiting_output'::text, 'running'::text, 'completed'::text, 'error'::text, 'denied'::text, 'unknown'::text]))),
  constraint parts_type_check CHECK ((type = ANY (ARRAY['text'::text, 'reasoning'::text, 'tool'::text, 'file'::text, 'source'::text, 'step-start'::text, 'compaction'::text])))
);

create table provider_pauses (
  model text not null,
  tenant_id text not null,
  endpoint text not null,
  credential text not null,
  session_id uuid not null,
  told_at timestamp with time zone not null,
  until_at timestamp with time zone not null,
  agreed_until_at timestamp with time zone,
  constraint provider_pauses_pkey PRIMARY KEY (model, tenant_id, endpoint, credential)
);

create table runs (
  id uuid not null,
  tenant_id text default 'default'::text not null,
  session_id uuid not null,
  kind text default 'task'::text not null,
  status text default 'queued'::text not null,
  status_reason text,
  epoch bigint default 0 not null,
  claim_id uuid,
  lease_owner text,
  lease_expires_at timestamp with time zone,
  pending_kind text,
  pending_no integer default 1 not null,
  pending_dispatch integer default 1 not null,
  pending_at timestamp with time zone,
  next_check_at timestamp with time zone,
  found_taken boolean default false not null,
  tenant_slot integer,
  throttled_at timestamp with time zone,
  request_upto_seq bigint default 0 not null,
  attempt integer default 1 not null,
  resume_count integer default 0 not null,
  step_count integer default 0 not null,
  limits jsonb,
  max_steps integer,
  start_inbox_seq bigint default 0 not null,
  cancel_inbox_seq bigint,
  cancel_requested_at timestamp with time zone,
  approval_expires_at timestamp with time zone,
  budget_tokens bigint,
  budget_cost_usd double precision,
  deadline_at timestamp with time zone,
  final_answer_for text,
  final_answer_until timestamp with time zone,
  error jsonb,
  input_tokens bigint default 0 not null,
  output_tokens bigint default 0 not null,
  reasoning_tokens bigint default 0 not null,
  cache_read_tokens bigint default 0 not null,
  cache_write_tokens bigint default 0 not null,
  cost_usd double precision default 0,
  required_engine integer default 1 not null,
  traceparent text,
  attempt_traceparent text,
  created_at timestamp(3) with time zone default clock_timestamp() not null,
  started_at timestamp with time zone,
  finished_at timestamp with time zone,
  constraint runs_pkey PRIMARY KEY (id),
  constraint runs_final_answer_for_check CHECK ((final_answer_for = ANY (ARRAY['max_steps'::text, 'budget'::text, 'deadline'::text, 'doom_loop'::text]))),
  constraint runs_kind_check CHECK ((kind = ANY (ARRAY['task'::text, 'maintenance'::text]))),
  constraint runs_pending_kind_check CHECK ((pending_kind = ANY (ARRAY['step'::text, 'compaction'::text, 'prune'::text]))),
  constraint runs_status_check CHECK ((status = ANY (ARRAY['queued'::text, 'running'::text, 'requires_action'::text, 'cancelling'::text, 'completed'::text, 'failed'::text, 'cancelled'::text, 'incomplete'::text])))
);

create table sessions (
  id uuid not null,
  tenant_id text default 'default'::text not null,
  agent_name text not null,
  agent_version text not null,
  agent_snapshot jsonb not null,
  title text,
  external_key text,
  conversation_asked bytea,
  conversation_turn jsonb,
  conversation_readers uuid[] default '{}'::uuid[] not null,
  conversation_head bytea,
  agent_base jsonb,
  overrides jsonb default '{}'::jsonb not null,
  drifted_tools jsonb default '{}'::jsonb not null,
  metadata jsonb default '{}'::jsonb not null,
  status text default 'idle'::text not null,
  active_run_id uuid,
  next_run_id uuid,
  events_first_seq bigint default 1 not null,
  inbox_seq bigint default 0 not null,
  view_start_seq bigint default 1 not null,
  summary_message_seq bigint,
  view_version bigint default 1 not null,
  requested_resume jsonb,
  requested_maintenance text,
  compaction_count integer default 0 not null,
  compacting_since timestamp with time zone,
  last_compaction_at timestamp with time zone,
  expires_at timestamp with time zone,
  created_at timestamp(3) with time zone default clock_timestamp() not null,
  input_tokens bigint default 0 not null,
  output_tokens bigint default 0 not null,
  reasoning_tokens bigint default 0 not null,
  cache_read_tokens bigint default 0 not null,
  cache_write_tokens bigint default 0 not null,
  cost_usd double precision default 0,
  context_state jsonb default '{}'::jsonb not null,
  epoch bigint default 0 not null,
  message_seq bigint default 0 not null,
  event_seq bigint default 0 not null,
  updated_at timestamp with time zone default clock_timestamp() not null,
  constraint sessions_pkey PRIMARY KEY (id),
  constraint sessions_next_run_id_key UNIQUE (next_run_id),
  constraint sessions_requested_maintenance_check CHECK ((requested_maintenance = ANY (ARRAY['compaction'::text, 'prune'::text]))),
  constraint sessions_status_check CHECK ((status = ANY (ARRAY['idle'::text, 'busy'::text, 'requires_action'::text])))
);

create table sql_functions (
  name text not null,
  checksum text not null,
  signature text not null,
  installed_at timestamp with time zone default clock_timestamp() not null,
  replaced_at timestamp with time zone,
  constraint sql_functions_pkey PRIMARY KEY (name, checksum)
);

create table stored_bytes (
  tenant_id text not null,
  share integer not null,
  bytes bigint not null,
  constraint stored_bytes_pkey PRIMARY KEY (tenant_id, share)
);

create table workers (
  id text not null,
  host text not null,
  pid integer not null,
  kinds text[] not null,
  lock_key bigint not null,
  locked_at timestamp with time zone default clock_timestamp() not null,
  lost_alone boolean default false not null,
  started_at timestamp with time zone default clock_timestamp() not null,
  seen_at timestamp with time zone default clock_timestamp() not null,
  constraint workers_pkey PRIMARY KEY (id),
  constraint workers_lock_key_key UNIQUE (lock_key),
  constraint workers_kinds_check CHECK ((kinds <@ ARRAY['step'::text, 'compaction'::text, 'prune'::text]))
);

create table write_probe (
  filler text not null
);

CREATE INDEX audit_log_listed ON public.audit_log USING btree (tenant_id, seq DESC);
CREATE INDEX blob_refs_of_session ON public.blob_refs USING btree (session_id);
CREATE INDEX compactions_of_run ON public.compactions USING btree (run_id) WHERE (run_id IS NOT NULL);
CREATE INDEX compactions_running ON public.compactions USING btree (session_id) WHERE (state = 'running'::text);
CREATE INDEX idempotency_keys_expiring ON public.idempotency_keys USING btree (expires_at);
CREATE INDEX inbox_of_run ON public.inbox USING btree (run_id) WHERE (run_id IS NOT NULL);
CREATE INDEX inbox_waiting ON public.inbox USING btree (session_id, seq) WHERE (consumed_message_seq IS NULL);
CREATE INDEX messages_of_step ON public.messages USING btree (run_id, step_no);
CREATE INDEX parts_unsettled ON public.parts USING btree (session_id) WHERE (state = ANY (ARRAY['pending'::text, 'awaiting_approval'::text, 'awaiting_output'::text, 'running'::text, 'unknown'::text]));
CREATE INDEX provider_pauses_of_model ON public.provider_pauses USING btree (model, until_at);
CREATE INDEX runs_awaiting_answer ON public.runs USING btree (approval_expires_at) WHERE ((status = 'requires_action'::text) AND (approval_expires_at IS NOT NULL));
CREATE INDEX runs_by_status ON public.runs USING btree (tenant_id, status, created_at DESC, id DESC);
CREATE INDEX runs_leased ON public.runs USING btree (lease_expires_at) WHERE ((claim_id IS NOT NULL) AND (status = ANY (ARRAY['running'::text, 'cancelling'::text])));
CREATE INDEX runs_listed ON public.runs USING btree (tenant_id, created_at DESC, id DESC);
CREATE INDEX runs_of_session ON public.runs USING btree (session_id, created_at DESC, id DESC);
CREATE UNIQUE INDEX runs_one_active_per_session ON public.runs USING btree (session_id) WHERE (status = ANY (ARRAY['queued'::text, 'running'::text, 'requires_action'::text, 'cancelling'::text]));
CREATE UNIQUE INDEX runs_tenant_slot ON public.runs USING btree (tenant_id, tenant_slot) WHERE ((claim_id IS NOT NULL) AND (tenant_slot IS NOT NULL));
CREATE INDEX runs_throttled ON public.runs USING btree (tenant_id, created_at, id) WHERE (throttled_at IS NOT NULL);
CREATE INDEX runs_unclaimed ON public.runs USING btree (COALESCE(next_check_at, pending_at)) WHERE ((claim_id IS NULL) AND (pending_kind IS NOT NULL) AND (throttled_at IS NULL) AND (status = ANY (ARRAY['queued'::text, 'running'::text, 'cancelling'::text])));
CREATE INDEX sessions_by_conversation ON public.sessions USING btree (tenant_id, conversation_head) WHERE (conversation_head IS NOT NULL);
CREATE UNIQUE INDEX sessions_by_external_key ON public.sessions USING btree (tenant_id, external_key) WHERE (external_key IS NOT NULL);
CREATE INDEX sessions_by_metadata ON public.sessions USING gin (metadata jsonb_path_ops);
CREATE INDEX sessions_by_question ON public.sessions USING btree (tenant_id, conversation_asked) WHERE (conversation_asked IS NOT NULL);
CREATE INDEX sessions_by_status ON public.sessions USING btree (tenant_id, status, created_at DESC, id DESC);
CREATE INDEX sessions_expiring ON public.sessions USING btree (id) WHERE (expires_at IS NOT NULL);
CREATE INDEX sessions_listed ON public.sessions USING btree (tenant_id, created_at DESC, id DESC);
CREATE INDEX sessions_of_active_run ON public.sessions USING btree (active_run_id) WHERE (active_run_id IS NOT NULL);
CREATE UNIQUE INDEX sql_functions_one_text ON public.sql_functions USING btree (name) WHERE (replaced_at IS NULL);

alter table blob_refs add constraint blob_refs_blob_id_fkey FOREIGN KEY (blob_id) REFERENCES blobs(id) ON DELETE RESTRICT;
alter table blob_refs add constraint blob_refs_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions(id) ON DELETE CASCADE;
alter table compactions add constraint compactions_run_id_fkey FOREIGN KEY (run_id) REFERENCES runs(id) ON DELETE SET NULL;
alter table compactions add constraint compactions_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions(id) ON DELETE CASCADE;
alter table events add constraint events_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions(id) ON DELETE CASCADE;
alter table inbox add constraint inbox_run_id_fkey FOREIGN KEY (run_id) REFERENCES runs(id) ON DELETE SET NULL;
alter table inbox add constraint inbox_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions(id) ON DELETE CASCADE;
alter table messages add constraint messages_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions(id) ON DELETE CASCADE;
alter table part_chunks add constraint part_chunks_message_id_fkey FOREIGN KEY (message_id) REFERENCES messages(id) ON DELETE CASCADE;
alter table parts add constraint parts_message_id_fkey FOREIGN KEY (message_id) REFERENCES messages(id) ON DELETE CASCADE;
alter table runs add constraint runs_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions(id) ON DELETE CASCADE;
alter table sessions add constraint sessions_active_run_fk FOREIGN KEY (active_run_id) REFERENCES runs(id) DEFERRABLE INITIALLY DEFERRED;

CREATE OR REPLACE FUNCTION public.baton_append_events(p_session uuid, p_run uuid, p_events jsonb)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
declare
  v_last bigint;
  v_tenant text;
begin
  if p_events = '[]' then return (select event_seq from sessions where id = p_session); end if;
  update sessions set event_seq = event_seq + jsonb_array_length(p_events), updated_at = clock_timestamp()
    where id = p_session returning event_seq, tenant_id into v_last, v_tenant;
  perform baton_insert_events(p_session, v_tenant, p_run, v_last, p_events);
  return v_last;
end $function$;

CREATE OR REPLACE FUNCTION public.baton_apply_response(p_session uuid, p_response jsonb, p_may_start boolean DEFAULT true)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
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
end $function$;

CREATE OR REPLACE FUNCTION public.baton_begin_compaction(p_run uuid, p_epoch bigint, p_claim uuid, p_compaction jsonb)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
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
end $function$;

CREATE OR REPLACE FUNCTION public.baton_begin_maintenance(p_session uuid, p_run uuid, OUT view json, OUT next_after bigint)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
begin
  update runs set started_at = clock_timestamp() where id = p_run and started_at is null;
  if found then
    perform baton_append_events(p_session, p_run, jsonb_build_array(jsonb_build_object(
      'type', 'run:started', 'data', jsonb_build_object('runId', baton_public_id('run', p_run)))));
  end if;
  select page.view, page.next_after into view, next_after from baton_view(p_session) as page;
end $function$;

CREATE OR REPLACE FUNCTION public.baton_begin_step(p_run runs, p_message uuid, p_after bigint, OUT view json, OUT next_after bigint, OUT opened_seq bigint, OUT last_event_seq bigint)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
declare
  v_upto bigint;
  v_events jsonb := '[]';
begin
  -- A final answer takes no new message: those that wait are for a run that can still call tools.
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
  -- One update for all columns: the row is wide, and every step writes it several times.
  update sessions set epoch = p_run.epoch, message_seq = message_seq + 1,
    event_seq = event_seq + jsonb_array_length(v_events), updated_at = clock_timestamp()
    where id = p_run.session_id returning message_seq, event_seq into opened_seq, last_event_seq;
  insert into messages (id, tenant_id, session_id, seq, role, run_id, step_no, attempt, epoch)
    values (p_message, p_run.tenant_id, p_run.session_id, opened_seq, 'assistant', p_run.id, p_run.pending_no,
      p_run.attempt, p_run.epoch);
  perform baton_insert_events(p_run.session_id, p_run.tenant_id, p_run.id, last_event_seq, v_events);
  select page.view, page.next_after into view, next_after from baton_view(p_run.session_id, p_after) as page;
end $function$;

CREATE OR REPLACE FUNCTION public.baton_cancel_claimed(p_tenant text, p_run uuid, p_audit jsonb)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
declare
  v_session uuid;
  v_is_claimed boolean;
  v_last bigint;
begin
  select session_id, status = 'running' and claim_id is not null into v_session, v_is_claimed
    from runs where id = p_run and tenant_id = p_tenant;
  if v_is_claimed is distinct from true then return null; end if;
  perform 1 from sessions where id = v_session for no key update;
  v_last := baton_mark_cancelling(v_session, p_run, true);
  if v_last is null then return null; end if;
  insert into audit_log (tenant_id, key_id, action, target)
    select a."tenantId", a."keyId", a.action, a.target
    from jsonb_to_record(p_audit) as a ("tenantId" text, "keyId" uuid, action text, target text)
    where p_audit is not null;
  return jsonb_build_object('sessionId', v_session, 'eventSeq', v_last);
end $function$;

CREATE OR REPLACE FUNCTION public.baton_claim_run(p_run uuid, p_kind text, p_no integer, p_dispatch integer, p_claim uuid, p_worker text, p_lease_ms integer, p_engine integer, p_message uuid, p_tenant_limit integer, p_known_version bigint, p_known_seq bigint, p_known_message uuid)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
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
    -- An expired lease alone does not free the run: Postgres may have been away. The reconciler decides.
    if v_run.claim_id is not null then return json_build_object('outcome', 'held'); end if;
    if v_run.pending_at > clock_timestamp() then
      return json_build_object('outcome', 'early',
        'waitMs', ceil(extract(epoch from v_run.pending_at - clock_timestamp()) * 1000));
    end if;
    if v_run.required_engine > p_engine then return json_build_object('outcome', 'engine'); end if;
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
  if p_kind = 'step' and v_interrupted is null and v_run.cancel_requested_at is null and not baton_is_used_up(v_run) then
    v_begun := baton_begin_step(v_run, p_message, v_after);
    v_view := v_begun.view;
    v_next_after := v_begun.next_after;
    v_message_seq := v_begun.opened_seq;
    v_event_seq := v_begun.last_event_seq;
  else
    -- baton_begin_step raises the epoch of the session together with what else it changes.
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
    -- Where nothing began, the message that this claim opened before its reply was lost is interrupted as well.
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
end $function$;

CREATE OR REPLACE FUNCTION public.baton_close_compaction(p_session uuid, p_run uuid, p_close jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
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
end $function$;

CREATE OR REPLACE FUNCTION public.baton_count_blobs_delete()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
      declare
        v_tenant record;
      begin
        for v_tenant in select tenant_id, -sum(size_bytes)::bigint as bytes from changed group by tenant_id loop
          perform baton_count_stored(v_tenant.tenant_id, v_tenant.bytes);
        end loop;
        return null;
      end $function$;

CREATE OR REPLACE FUNCTION public.baton_count_blobs_insert()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
      declare
        v_tenant record;
      begin
        for v_tenant in select tenant_id, sum(size_bytes)::bigint as bytes from changed group by tenant_id loop
          perform baton_count_stored(v_tenant.tenant_id, v_tenant.bytes);
        end loop;
        return null;
      end $function$;

CREATE OR REPLACE FUNCTION public.baton_count_changed()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    begin
      perform baton_count_stored(new.tenant_id, new.content_bytes - old.content_bytes);
      return null;
    end $function$;

CREATE OR REPLACE FUNCTION public.baton_count_inbox_delete()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
      declare
        v_tenant record;
      begin
        for v_tenant in select tenant_id, -sum(content_bytes)::bigint as bytes from changed group by tenant_id loop
          perform baton_count_stored(v_tenant.tenant_id, v_tenant.bytes);
        end loop;
        return null;
      end $function$;

CREATE OR REPLACE FUNCTION public.baton_count_inbox_insert()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
      declare
        v_tenant record;
      begin
        for v_tenant in select tenant_id, sum(content_bytes)::bigint as bytes from changed group by tenant_id loop
          perform baton_count_stored(v_tenant.tenant_id, v_tenant.bytes);
        end loop;
        return null;
      end $function$;

CREATE OR REPLACE FUNCTION public.baton_count_parts_delete()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
      declare
        v_tenant record;
      begin
        for v_tenant in select tenant_id, -sum(content_bytes)::bigint as bytes from changed group by tenant_id loop
          perform baton_count_stored(v_tenant.tenant_id, v_tenant.bytes);
        end loop;
        return null;
      end $function$;

CREATE OR REPLACE FUNCTION public.baton_count_parts_insert()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
      declare
        v_tenant record;
      begin
        for v_tenant in select tenant_id, sum(content_bytes)::bigint as bytes from changed group by tenant_id loop
          perform baton_count_stored(v_tenant.tenant_id, v_tenant.bytes);
        end loop;
        return null;
      end $function$;

CREATE OR REPLACE FUNCTION public.baton_count_sessions_delete()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
      declare
        v_tenant record;
      begin
        for v_tenant in select tenant_id, -sum(8192)::bigint as bytes from changed group by tenant_id loop
          perform baton_count_stored(v_tenant.tenant_id, v_tenant.bytes);
        end loop;
        return null;
      end $function$;

CREATE OR REPLACE FUNCTION public.baton_count_sessions_insert()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
      declare
        v_tenant record;
      begin
        for v_tenant in select tenant_id, sum(8192)::bigint as bytes from changed group by tenant_id loop
          perform baton_count_stored(v_tenant.tenant_id, v_tenant.bytes);
        end loop;
        return null;
      end $function$;

CREATE OR REPLACE FUNCTION public.baton_count_stored(p_tenant_id text, p_bytes bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  v_share integer;
begin
  if p_bytes = 0 then return; end if;
  select share into v_share from stored_bytes where tenant_id = p_tenant_id
    order by share limit 1 for no key update skip locked;
  if found then
    update stored_bytes set bytes = bytes + p_bytes where tenant_id = p_tenant_id and share = v_share;
  else
    insert into stored_bytes (tenant_id, share, bytes)
    values (p_tenant_id, floor(random() * 2147483647)::integer, p_bytes);
  end if;
end $function$;

CREATE OR REPLACE FUNCTION public.baton_drain_inbox(p_session uuid, p_run uuid, p_step integer)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
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
    -- A message that begins with a file gets its label as a text part before it.
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
end $function$;

CREATE OR REPLACE FUNCTION public.baton_finish_maintenance(p_run uuid, p_epoch bigint, p_claim uuid, p_finish jsonb)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
declare
  v_run runs := baton_lock_claimed_run(p_run, p_epoch, p_claim);
begin
  if v_run.id is null then return null; end if;
  perform baton_mark_parts(v_run.session_id, p_finish -> 'marks');
  if p_finish ? 'compaction' then
    perform baton_close_compaction(v_run.session_id, p_run, p_finish -> 'compaction');
  end if;
  return baton_take_branch(v_run, p_finish);
end $function$;

CREATE OR REPLACE FUNCTION public.baton_finish_step(p_run uuid, p_epoch bigint, p_claim uuid, p_finish jsonb, p_blobs bytea[])
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
declare
  v_move jsonb;
  v_no integer := 0;
  v_run runs := baton_lock_claimed_run(p_run, p_epoch, p_claim);
begin
  if v_run.id is null then return null; end if;
  -- Streamed text is dropped only where another attempt follows: a cancelled run keeps it.
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
end $function$;

CREATE OR REPLACE FUNCTION public.baton_insert_events(p_session uuid, p_tenant text, p_run uuid, p_last bigint, p_events jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  insert into events (session_id, seq, tenant_id, run_id, type, data)
    select p_session, p_last - jsonb_array_length(p_events) + e.ord, p_tenant, p_run, e.event ->> 'type', e.event -> 'data'
    from jsonb_array_elements(p_events) with ordinality as e (event, ord);
end $function$;

CREATE OR REPLACE FUNCTION public.baton_is_dead(p_worker text)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
  perform pg_advisory_xact_lock_shared(1652651120, hashtext(p_worker));
  return exists (select 1 from dead_workers where id = p_worker);
end $function$;

CREATE OR REPLACE FUNCTION public.baton_is_used_up(p_run runs)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  if p_run.final_answer_for is not null then return p_run.final_answer_until <= clock_timestamp(); end if;
  return p_run.request_upto_seq > 0 and (
    coalesce(p_run.deadline_at <= clock_timestamp(), false)
    or coalesce(p_run.input_tokens + p_run.output_tokens >= p_run.budget_tokens, false)
    -- An unknown cost may have exceeded the budget.
    or coalesce(p_run.cost_usd >= p_run.budget_cost_usd, p_run.budget_cost_usd is not null));
end $function$;

CREATE OR REPLACE FUNCTION public.baton_job_of(p_run uuid)
 RETURNS jsonb
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return (select baton_pending_job(runs) from runs where id = p_run);
end $function$;

CREATE OR REPLACE FUNCTION public.baton_limit_run(p_session uuid, p_run uuid, p_limits jsonb, p_resumes boolean)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
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
end $function$;

CREATE OR REPLACE FUNCTION public.baton_lock_burial(p_worker text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  perform pg_advisory_xact_lock(1652651120, hashtext(p_worker));
end $function$;

CREATE OR REPLACE FUNCTION public.baton_lock_claimed_run(p_run uuid, p_epoch bigint, p_claim uuid)
 RETURNS runs
 LANGUAGE plpgsql
AS $function$
declare
  v_run runs;
begin
  perform 1 from sessions where id = (select session_id from runs where id = p_run) for no key update;
  select * into v_run from runs where id = p_run and epoch = p_epoch and claim_id = p_claim for no key update;
  return v_run;
end $function$;

CREATE OR REPLACE FUNCTION public.baton_mark_cancelling(p_session uuid, p_run uuid, p_parks boolean)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
declare
  v_is_claimed boolean;
begin
  select status = 'running' and claim_id is not null into v_is_claimed from runs where id = p_run for no key update;
  if v_is_claimed is distinct from true then return null; end if;
  update runs set status = 'cancelling', cancel_requested_at = clock_timestamp(),
    cancel_inbox_seq = case when p_parks then (select inbox_seq from sessions where id = p_session) else 0 end
    where id = p_run;
  return baton_append_events(p_session, p_run, jsonb_build_array(
    jsonb_build_object('type', 'run:cancelling', 'data', jsonb_build_object('runId', baton_public_id('run', p_run)))));
end $function$;

CREATE OR REPLACE FUNCTION public.baton_mark_parts(p_session uuid, p_marks jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
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
end $function$;

CREATE OR REPLACE FUNCTION public.baton_message_created(p_session uuid, p_message uuid, p_seq bigint, p_parts jsonb, p_bytes bigint)
 RETURNS jsonb
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return jsonb_build_object('type', 'message:created', 'data', jsonb_build_object(
    'messageId', baton_public_id('msg', p_message), 'seq', p_seq, 'role', 'user') || case
      when p_bytes <= 16384 then jsonb_build_object('parts', p_parts)
      else jsonb_build_object('contentRef', jsonb_build_object(
        'sizeBytes', p_bytes,
        'href', '/v1/sessions/' || baton_public_id('ses', p_session) || '/messages?after=' || p_seq - 1 || '&limit=1')) end);
end $function$;

CREATE OR REPLACE FUNCTION public.baton_model_memory(p_model text, p_tenant text)
 RETURNS json
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_provider text := split_part(p_model, '/', 1);
  v_model text := substr(p_model, length(v_provider) + 2);
begin
  return json_build_object('model', p_model,
    'limits', coalesce((select json_agg(json_build_object('endpoint', endpoint, 'contextWindow', context_tokens,
        'inputLimit', input_tokens, 'prior', estimator_prior,
        'refusesTools', baton_refuses_tools(tools_refused_at))) from model_limits
      where provider = v_provider and model = v_model), '[]'),
    'pauses', coalesce((select json_agg(json_build_object('endpoint', endpoint, 'credential', credential,
        'leftMs', ceil(extract(epoch from until_at - clock_timestamp()) * 1000))) from baton_pauses(v_model, p_tenant)), '[]'));
end $function$;

CREATE OR REPLACE FUNCTION public.baton_move_call(p_session uuid, p_move jsonb, p_blob_bytes bytea)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
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
end $function$;

CREATE OR REPLACE FUNCTION public.baton_move_calls(p_run uuid, p_epoch bigint, p_claim uuid, p_moves jsonb, p_blobs bytea[])
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
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
end $function$;

CREATE OR REPLACE FUNCTION public.baton_pauses(p_model text, p_tenant text)
 RETURNS TABLE(endpoint text, credential text, until_at timestamp with time zone)
 LANGUAGE plpgsql
 STABLE
AS $function$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
begin
  if coalesce((select max(until_at) from provider_pauses where model = p_model) <= v_now, true) then return; end if;
  return query
    with live as (
      (select * from provider_pauses where model = p_model and until_at > v_now order by until_at desc limit 64)
      union
      (select * from provider_pauses where model = p_model and tenant_id = p_tenant and until_at > v_now limit 64)
    ), told as (
      select endpoint, credential, until_at from live
      union all
      select endpoint, credential, agreed_until_at from live where tenant_id = p_tenant and agreed_until_at is not null
    ), ranked as (
      select endpoint, credential, until_at,
        row_number() over (partition by endpoint, credential order by until_at desc) as place from told
    ), paused as (
      select endpoint, credential, until_at from ranked where place = 2
      union all
      select endpoint, credential, least(until_at, told_at + interval '5 seconds') from live where tenant_id = p_tenant
    )
    select endpoint, credential, max(until_at) from paused where until_at > v_now group by endpoint, credential;
end $function$;

CREATE OR REPLACE FUNCTION public.baton_pending_job(p_run runs)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
AS $function$
  select jsonb_build_object('runId', p_run.id, 'kind', p_run.pending_kind, 'no', p_run.pending_no,
    'dispatch', p_run.pending_dispatch)
$function$;

CREATE OR REPLACE FUNCTION public.baton_probe_write()
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  v_bytes bigint := pg_relation_size('write_probe');
begin
  begin
    for v_page in 1..200 loop
      insert into write_probe (filler) values (repeat('x', 8000));
      exit when pg_relation_size('write_probe') > v_bytes;
    end loop;
    raise exception using errcode = 'BT000', message = 'take it back';
  exception when sqlstate 'BT000' then
    null;
  end;
end $function$;

CREATE OR REPLACE FUNCTION public.baton_public_id(p_prefix text, p_id uuid)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
AS $function$ select p_prefix || '_' || replace(p_id::text, '-', '') $function$;

CREATE OR REPLACE FUNCTION public.baton_refuses_tools(p_refused_at timestamp with time zone)
 RETURNS boolean
 LANGUAGE sql
 STABLE
AS $function$
  select coalesce(p_refused_at > clock_timestamp() - interval '1 day', false)
$function$;

CREATE OR REPLACE FUNCTION public.baton_release_throttled(p_tenant text, p_limit integer, p_most integer)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
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
end $function$;

CREATE OR REPLACE FUNCTION public.baton_requested_state()
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select '{"pending": {"reason": "manual", "force": true, "stripMedia": false}}'::jsonb
$function$;

CREATE OR REPLACE FUNCTION public.baton_restart_step(p_run uuid, p_epoch bigint, p_claim uuid, p_message uuid, p_broken jsonb)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_run runs := baton_lock_claimed_run(p_run, p_epoch, p_claim);
  v_view json;
  v_next_after bigint;
begin
  if v_run.id is null then return null; end if;
  if v_run.cancel_requested_at is null and not baton_is_used_up(v_run) then
    -- The worker asks again: the reply of its first request was lost.
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
end $function$;

CREATE OR REPLACE FUNCTION public.baton_resume_run(p_session uuid, p_run uuid)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
begin
  update runs set status = 'running', pending_kind = 'step', pending_dispatch = pending_dispatch + 1,
    pending_at = clock_timestamp(), next_check_at = null, approval_expires_at = null
    where id = p_run and status = 'requires_action';
  if not found then return null; end if;
  update sessions set status = 'busy' where id = p_session;
  return baton_job_of(p_run);
end $function$;

CREATE OR REPLACE FUNCTION public.baton_start_run(p_session uuid, p_run uuid, p_kind text, p_traceparent text, p_pending text DEFAULT 'step'::text, p_limits jsonb DEFAULT '{}'::jsonb, p_resumes boolean DEFAULT false)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
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
  -- A task run drops the order of a compaction or prune that was cancelled before it began.
  update sessions set status = 'busy', active_run_id = p_run,
    next_run_id = case when p_kind = 'task' then null else next_run_id end,
    requested_resume = case when p_kind = 'task' then null else requested_resume end,
    context_state = case when v_pending = 'step' then context_state - 'pending' else context_state end
      -- The limit of compactions without a step between them holds within one run: a new one starts from zero.
      - case when p_kind = 'task' then 'compactionsSinceStep' else '' end
    where id = p_session;
  if p_kind = 'task' then
    update inbox set run_id = p_run where session_id = p_session and consumed_message_seq is null;
  end if;
  return baton_append_events(p_session, p_run, jsonb_build_array(jsonb_build_object(
    'type', 'run:queued', 'data', jsonb_build_object('runId', baton_public_id('run', p_run)))));
end $function$;

CREATE OR REPLACE FUNCTION public.baton_still_ran(p_run uuid)
 RETURNS jsonb
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return (select coalesce(jsonb_agg(p.tool_name order by m.seq, p.idx), '[]')
    from runs r
    join messages m on m.run_id = r.id and m.step_no = r.pending_no and m.role = 'assistant' and not m.superseded
    join parts p on p.message_id = m.id and p.type = 'tool'
    where r.id = p_run and p.started_at is not null and p.finished_at >= r.cancel_requested_at
      and not coalesce(p.answer -> 'given' ?| array['output', 'content'], false));
end $function$;

CREATE OR REPLACE FUNCTION public.baton_take_branch(p_run runs, p_finish jsonb)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
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
  -- Null where the price of the model is unknown; the sum is unknown from then on.
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
    -- BullMQ ignores a job id that it still knows, and a run comes back to the same step after a compaction: a new id.
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
    -- The run does not wait beyond its deadline.
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
    -- The trace of the next attempt links to this one.
    attempt_traceparent = case when v_branch ? 'retryDelayMs' then attempt_traceparent end,
    final_answer_for = coalesce(v_branch -> 'finalAnswer' ->> 'for', final_answer_for),
    final_answer_until = case when v_branch ? 'finalAnswer'
      then clock_timestamp() + make_interval(secs => (v_branch -> 'finalAnswer' ->> 'withinMs')::integer / 1000.0)
      else final_answer_until end,
    finished_at = case when v_branch ? 'status' then clock_timestamp() end
    where id = p_run.id returning * into v_run;
  -- The time of the next attempt is by the clock of Postgres, not by that of the worker.
  if v_events #>> '{-1,type}' = 'step:retrying' then
    v_events := jsonb_set(v_events, '{-1,data,nextAttemptAt}',
      to_jsonb(to_char(v_run.pending_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')));
  end if;
  -- One update for everything that the end of a step changes of its session: the row is wide.
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

  -- A message that was sent after a cancel, or during a compaction or prune, was not meant for the run that ends here.
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
    -- The trace of the new run continues that of the first message it answers, if that has one.
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
end $function$;

CREATE OR REPLACE FUNCTION public.baton_take_requested(p_session uuid)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  update sessions set requested_maintenance = null, context_state = context_state || baton_requested_state()
    where id = p_session;
end $function$;

CREATE OR REPLACE FUNCTION public.baton_take_slot(p_run runs, p_claim uuid, p_limit integer)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
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
end $function$;

CREATE OR REPLACE FUNCTION public.baton_view(p_session uuid, p_after bigint DEFAULT 0, OUT view json, OUT next_after bigint)
 RETURNS record
 LANGUAGE plpgsql
 STABLE
AS $function$
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
end $function$;

CREATE OR REPLACE FUNCTION public.baton_write_response(p_run uuid, p_epoch bigint, p_claim uuid, p_response jsonb, p_events jsonb)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
declare
  v_run runs := baton_lock_claimed_run(p_run, p_epoch, p_claim);
  v_message uuid := (p_response ->> 'messageId')::uuid;
  v_may_start boolean := v_run.cancel_requested_at is null;
begin
  if v_run.id is null then return null; end if;
  -- The worker writes again: the reply of its first request was lost. Calls that were to start then are running.
  if exists (select 1 from messages where id = v_message and finished_at is not null) then
    return jsonb_build_object(
      'mayStart', exists (select 1 from parts where message_id = v_message and state = 'running'),
      'eventSeq', (select event_seq from sessions where id = v_run.session_id));
  end if;
  perform baton_apply_response(v_run.session_id, p_response, v_may_start);
  return jsonb_build_object('mayStart', v_may_start,
    'eventSeq', baton_append_events(v_run.session_id, p_run, p_events));
end $function$;

CREATE TRIGGER baton_count_blobs_delete AFTER DELETE ON public.blobs REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION baton_count_blobs_delete();
CREATE TRIGGER baton_count_blobs_insert AFTER INSERT ON public.blobs REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION baton_count_blobs_insert();
CREATE TRIGGER baton_count_inbox_delete AFTER DELETE ON public.inbox REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION baton_count_inbox_delete();
CREATE TRIGGER baton_count_inbox_insert AFTER INSERT ON public.inbox REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION baton_count_inbox_insert();
CREATE TRIGGER baton_count_inbox_update AFTER UPDATE ON public.inbox FOR EACH ROW WHEN ((old.content_bytes IS DISTINCT FROM new.content_bytes)) EXECUTE FUNCTION baton_count_changed();
CREATE TRIGGER baton_count_parts_delete AFTER DELETE ON public.parts REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION baton_count_parts_delete();
CREATE TRIGGER baton_count_parts_insert AFTER INSERT ON public.parts REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION baton_count_parts_insert();
CREATE TRIGGER baton_count_parts_update AFTER UPDATE ON public.parts FOR EACH ROW WHEN ((old.content_bytes IS DISTINCT FROM new.content_bytes)) EXECUTE FUNCTION baton_count_changed();
CREATE TRIGGER baton_count_sessions_delete AFTER DELETE ON public.sessions REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION baton_count_sessions_delete();
CREATE TRIGGER baton_count_sessions_insert AFTER INSERT ON public.sessions REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION baton_count_sessions_insert();
