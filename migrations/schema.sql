-- The schema after all migrations, with the functions of src/store/sql. Written by "npm run schema:dump"; never
-- change it here.

create sequence audit_log_seq;
create sequence worker_lock_keys;

create domain call_state as text constraint call_state_check CHECK ((VALUE = ANY (ARRAY['pending'::text, 'awaiting_approval'::text, 'awaiting_output'::text, 'running'::text, 'completed'::text, 'error'::text, 'denied'::text, 'unknown'::text])));
create domain chunk_type as text constraint chunk_type_check CHECK ((VALUE = ANY (ARRAY['text'::text, 'reasoning'::text])));
create domain limit_reason as text constraint limit_reason_check CHECK ((VALUE = ANY (ARRAY['max_steps'::text, 'budget'::text, 'deadline'::text, 'doom_loop'::text])));
create domain maintenance_kind as text constraint maintenance_kind_check CHECK ((VALUE = ANY (ARRAY['compaction'::text, 'prune'::text])));
create domain message_role as text constraint message_role_check CHECK ((VALUE = ANY (ARRAY['user'::text, 'assistant'::text])));
create domain part_type as text constraint part_type_check CHECK ((VALUE = ANY (ARRAY['text'::text, 'reasoning'::text, 'tool'::text, 'file'::text, 'source'::text, 'step-start'::text, 'compaction'::text])));
create domain pending_kind as text constraint pending_kind_check CHECK ((VALUE = ANY (ARRAY['step'::text, 'compaction'::text, 'prune'::text])));
create domain required_action as text constraint required_action_check CHECK ((VALUE = ANY (ARRAY['approval'::text, 'output'::text, 'unknown_outcome'::text, 'input'::text, 'child'::text])));
create domain run_kind as text constraint run_kind_check CHECK ((VALUE = ANY (ARRAY['task'::text, 'maintenance'::text])));
create domain run_status as text constraint run_status_check CHECK ((VALUE = ANY (ARRAY['queued'::text, 'running'::text, 'requires_action'::text, 'cancelling'::text, 'completed'::text, 'failed'::text, 'cancelled'::text, 'incomplete'::text])));
create domain session_status as text constraint session_status_check CHECK ((VALUE = ANY (ARRAY['idle'::text, 'busy'::text, 'requires_action'::text])));

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

create table children (
  parent_session_id uuid not null,
  message_id uuid not null,
  idx integer not null,
  tenant_id text default 'default'::text not null,
  parent_run_id uuid not null,
  tool_name text not null,
  agent_name text not null,
  mode text not null,
  limits jsonb not null,
  max_parallel integer not null,
  session_id uuid not null,
  run_id uuid not null,
  state text not null,
  stop_requested boolean default false not null,
  is_told boolean default false not null,
  asks integer default 0 not null,
  asks_told integer default 0 not null,
  result jsonb,
  due_at timestamp(3) with time zone,
  created_at timestamp(3) with time zone default clock_timestamp() not null,
  ended_at timestamp with time zone,
  constraint children_pkey PRIMARY KEY (parent_session_id, message_id, idx),
  constraint children_mode_check CHECK ((mode = ANY (ARRAY['wait'::text, 'background'::text]))),
  constraint children_state_check CHECK ((state = ANY (ARRAY['held'::text, 'asked'::text, 'running'::text, 'ended'::text, 'delivered'::text, 'dropped'::text])))
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

create table console_logins (
  id uuid not null,
  key_id uuid not null,
  cookie_sha256 bytea not null,
  page_sha256 bytea not null,
  board_sha256 bytea not null,
  created_at timestamp with time zone default clock_timestamp() not null,
  expires_at timestamp with time zone not null,
  constraint console_logins_pkey PRIMARY KEY (id),
  constraint console_logins_cookie_sha256_key UNIQUE (cookie_sha256),
  constraint console_logins_board_sha256_check CHECK ((length(board_sha256) = 32)),
  constraint console_logins_cookie_sha256_check CHECK ((length(cookie_sha256) = 32)),
  constraint console_logins_page_sha256_check CHECK ((length(page_sha256) = 32))
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

create table delivery_cursors (
  tenant_id text not null,
  after_endpoint text not null,
  constraint delivery_cursors_pkey PRIMARY KEY (tenant_id)
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

create table history (
  is_only boolean default true not null,
  epoch text not null,
  identity text not null,
  constraint history_pkey PRIMARY KEY (is_only),
  constraint history_is_only_check CHECK (is_only)
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
  origin text default 'user'::text not null,
  sent_by text,
  content jsonb not null,
  content_bytes integer generated always as (octet_length((content)::text)) stored not null,
  limits jsonb default '{}'::jsonb not null,
  lowered jsonb default '{}'::jsonb not null,
  webhook jsonb,
  output json,
  run_id uuid,
  traceparent text,
  enqueued_at timestamp with time zone default clock_timestamp() not null,
  consumed_message_seq bigint,
  constraint inbox_pkey PRIMARY KEY (session_id, seq),
  constraint inbox_tenant_id_id_key UNIQUE (tenant_id, id),
  constraint inbox_delivery_check CHECK ((delivery = ANY (ARRAY['steer'::text, 'followup'::text, 'interrupt'::text]))),
  constraint inbox_origin_check CHECK ((origin = ANY (ARRAY['user'::text, 'system'::text]))),
  constraint inbox_sent_by_check CHECK ((sent_by = ANY (ARRAY['schedule'::text, 'hook'::text])))
);

create table message_words (
  session_id uuid not null,
  seq bigint not null,
  tenant_id text not null,
  created_at timestamp(3) with time zone not null,
  words tsvector not null,
  constraint message_words_pkey PRIMARY KEY (session_id, seq)
);

create table messages (
  id uuid not null,
  tenant_id text default 'default'::text not null,
  session_id uuid not null,
  seq bigint not null,
  role message_role not null,
  run_id uuid,
  step_no integer,
  attempt integer,
  epoch bigint,
  event_seq bigint,
  view_start_seq bigint,
  summary_seq bigint,
  request jsonb,
  provider_response jsonb,
  model text,
  finish_reason text,
  is_summary boolean default false not null,
  superseded boolean default false not null,
  reverted_no integer,
  usage jsonb,
  error jsonb,
  metadata jsonb default '{}'::jsonb not null,
  created_at timestamp with time zone default clock_timestamp() not null,
  finished_at timestamp with time zone,
  constraint messages_pkey PRIMARY KEY (session_id, seq),
  constraint messages_id_session_id_key UNIQUE (id, session_id)
);

create table migration_texts (
  name text not null,
  checksum text not null,
  constraint migration_texts_pkey PRIMARY KEY (name)
);

create table model_adaptations (
  tenant_id text not null,
  provider text not null,
  endpoint text not null,
  model text not null,
  kind text not null,
  detail text not null,
  learned_at timestamp with time zone default clock_timestamp() not null,
  constraint model_adaptations_pkey PRIMARY KEY (tenant_id, provider, endpoint, model, kind, detail)
);

create table model_limits (
  provider text not null,
  endpoint text not null,
  model text not null,
  context_tokens integer,
  input_tokens integer,
  estimator_prior double precision,
  tools_refused_at timestamp with time zone,
  constraint model_limits_pkey PRIMARY KEY (provider, endpoint, model)
);

create table part_chunks (
  session_id uuid not null,
  message_id uuid not null,
  char_offset integer not null,
  part_idx integer not null,
  type chunk_type not null,
  chunk text not null,
  constraint part_chunks_pkey PRIMARY KEY (session_id, message_id, char_offset)
);

create table parts (
  session_id uuid not null,
  message_id uuid not null,
  idx integer not null,
  tenant_id text default 'default'::text not null,
  type part_type not null,
  content jsonb not null,
  tool_call_id text,
  tool_name text,
  state call_state,
  required_action required_action,
  answer jsonb,
  started_at timestamp with time zone,
  finished_at timestamp with time zone,
  truncated boolean default false not null,
  compacted_at timestamp with time zone,
  view_limit integer,
  earlier_view_limits jsonb,
  media_stripped_at timestamp with time zone,
  original_tokens integer,
  outside_work jsonb,
  question jsonb,
  content_bytes integer generated always as (octet_length((content)::text)) stored not null,
  constraint parts_pkey PRIMARY KEY (session_id, message_id, idx),
  constraint parts_check CHECK ((((type)::text = 'tool'::text) = (state IS NOT NULL)))
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
  kind run_kind default 'task'::text not null,
  status run_status default 'queued'::text not null,
  status_reason text,
  lease_owner text,
  lease_expires_at timestamp with time zone,
  pending_kind pending_kind,
  next_check_at timestamp with time zone,
  found_taken boolean default false not null,
  tenant_slot integer,
  throttled_at timestamp with time zone,
  attempt integer default 1 not null,
  resume_count integer default 0 not null,
  limits jsonb,
  model_position integer default 0 not null,
  output_format json,
  output_state jsonb default '{"repairs": 0}'::jsonb not null,
  output jsonb,
  max_steps integer,
  start_inbox_seq bigint default 0 not null,
  cancel_inbox_seq bigint,
  cancel_requested_at timestamp with time zone,
  approval_expires_at timestamp with time zone,
  is_delegating boolean default false not null,
  children_count integer default 0 not null,
  children_steps integer default 0 not null,
  children_tokens bigint default 0 not null,
  children_cost_usd double precision default 0,
  budget_tokens bigint,
  budget_cost_usd double precision,
  deadline_at timestamp with time zone,
  final_answer_for limit_reason,
  final_answer_until timestamp with time zone,
  error jsonb,
  required_engine integer default 1 not null,
  traceparent text,
  attempt_traceparent text,
  created_at timestamp(3) with time zone default clock_timestamp() not null,
  started_at timestamp with time zone,
  finished_at timestamp with time zone,
  is_claimed boolean generated always as ((claim_id IS NOT NULL)) stored not null,
  due_at timestamp with time zone generated always as (
CASE
    WHEN ((claim_id IS NULL) AND (pending_kind IS NOT NULL) AND (throttled_at IS NULL) AND ((status)::text = ANY (ARRAY['queued'::text, 'running'::text, 'cancelling'::text]))) THEN COALESCE(next_check_at, pending_at)
    ELSE NULL::timestamp with time zone
END) stored,
  step_count integer default 0 not null,
  input_tokens bigint default 0 not null,
  output_tokens bigint default 0 not null,
  reasoning_tokens bigint default 0 not null,
  cache_read_tokens bigint default 0 not null,
  cache_write_tokens bigint default 0 not null,
  cost_usd double precision default 0,
  epoch bigint default 0 not null,
  claim_id uuid,
  pending_no integer default 1 not null,
  pending_dispatch integer default 1 not null,
  pending_at timestamp with time zone,
  constraint runs_pkey PRIMARY KEY (id),
  constraint runs_cancel_parks CHECK (((cancel_requested_at IS NULL) = (cancel_inbox_seq IS NULL)))
);

create table schedule_fires (
  schedule_id uuid not null,
  fire_at timestamp(3) with time zone not null,
  tenant_id text default 'default'::text not null,
  result text not null,
  session_id uuid,
  run_id uuid,
  error jsonb,
  created_at timestamp(3) with time zone default clock_timestamp() not null,
  constraint schedule_fires_pkey PRIMARY KEY (schedule_id, fire_at),
  constraint schedule_fires_result_check CHECK ((result = ANY (ARRAY['fired'::text, 'skipped'::text, 'missed'::text, 'failed'::text])))
);

create table schedule_looks (
  is_only boolean default true not null,
  looked_at timestamp with time zone default clock_timestamp() not null,
  unwatched_until timestamp with time zone default clock_timestamp() not null,
  constraint schedule_looks_pkey PRIMARY KEY (is_only),
  constraint schedule_looks_is_only_check CHECK (is_only)
);

create table schedules (
  id uuid not null,
  tenant_id text default 'default'::text not null,
  key text,
  declared_by text,
  agent_name text not null,
  title text,
  cron text not null,
  timezone text not null,
  content text not null,
  session_kind text not null,
  overlap text not null,
  catchup text not null,
  jitter_ms integer not null,
  paused_reason text,
  next_fire_at timestamp(3) with time zone,
  due_at timestamp(3) with time zone,
  is_held boolean default false not null,
  session_id uuid,
  last_run_id uuid,
  created_at timestamp(3) with time zone default clock_timestamp() not null,
  updated_at timestamp(3) with time zone default clock_timestamp() not null,
  constraint schedules_pkey PRIMARY KEY (id),
  constraint schedules_catchup_check CHECK ((catchup = ANY (ARRAY['none'::text, 'last'::text]))),
  constraint schedules_overlap_check CHECK ((overlap = ANY (ARRAY['skip'::text, 'queue'::text, 'replace'::text]))),
  constraint schedules_session_kind_check CHECK ((session_kind = ANY (ARRAY['new'::text, 'same'::text])))
);

create table session_agents (
  session_id uuid not null,
  upto_seq bigint not null,
  tenant_id text not null,
  snapshot jsonb not null,
  constraint session_agents_pkey PRIMARY KEY (session_id, upto_seq)
);

create table session_reverts (
  session_id uuid not null,
  no integer not null,
  tenant_id text default 'default'::text not null,
  message_id uuid not null,
  to_seq bigint not null,
  upto_seq bigint not null,
  message_count integer not null,
  view_start_seq bigint not null,
  summary_message_seq bigint,
  created_at timestamp with time zone default clock_timestamp() not null,
  undone_at timestamp with time zone,
  constraint session_reverts_pkey PRIMARY KEY (session_id, no)
);

create table session_words (
  session_id uuid not null,
  tenant_id text not null,
  created_at timestamp(3) with time zone not null,
  words tsvector not null,
  indexed_seq bigint default 0 not null,
  constraint session_words_pkey PRIMARY KEY (session_id)
);

create table sessions (
  id uuid not null,
  tenant_id text default 'default'::text not null,
  agent_name text not null,
  agent_version text not null,
  agent_snapshot jsonb not null,
  title text,
  external_key text,
  first_words text,
  forked_from_session_id uuid,
  forked_from_message_id uuid,
  conversation_asked bytea,
  conversation_head bytea,
  agent_base jsonb,
  overrides jsonb default '{}'::jsonb not null,
  drifted_tools jsonb default '{}'::jsonb not null,
  metadata jsonb default '{}'::jsonb not null,
  parent_session_id uuid,
  root_session_id uuid,
  depth integer default 0 not null,
  status session_status default 'idle'::text not null,
  active_run_id uuid,
  next_run_id uuid,
  events_first_seq bigint default 1 not null,
  inbox_seq bigint default 0 not null,
  view_start_seq bigint default 1 not null,
  summary_message_seq bigint,
  view_version bigint default 1 not null,
  requested_resume jsonb,
  requested_maintenance maintenance_kind,
  compaction_count integer default 0 not null,
  compacting_since timestamp with time zone,
  last_compaction_at timestamp with time zone,
  expires_at timestamp with time zone,
  words_due_at timestamp with time zone,
  created_at timestamp(3) with time zone default clock_timestamp() not null,
  input_tokens bigint default 0 not null,
  output_tokens bigint default 0 not null,
  reasoning_tokens bigint default 0 not null,
  cache_read_tokens bigint default 0 not null,
  cache_write_tokens bigint default 0 not null,
  cost_usd double precision default 0,
  step_count bigint default 0 not null,
  context_state jsonb default '{}'::jsonb not null,
  epoch bigint default 0 not null,
  message_seq bigint default 0 not null,
  event_seq bigint default 0 not null,
  updated_at timestamp with time zone default clock_timestamp() not null,
  constraint sessions_pkey PRIMARY KEY (id),
  constraint sessions_next_run_id_key UNIQUE (next_run_id)
);

create table silent_endpoints (
  endpoint text not null,
  tenant_id text not null,
  silent_at timestamp with time zone default clock_timestamp() not null,
  constraint silent_endpoints_pkey PRIMARY KEY (endpoint)
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

create table token_secret (
  is_only boolean default true not null,
  secret bytea not null,
  constraint token_secret_pkey PRIMARY KEY (is_only),
  constraint token_secret_is_only_check CHECK (is_only),
  constraint token_secret_secret_check CHECK ((length(secret) = 32))
);

create table webhook_deliveries (
  id uuid not null,
  tenant_id text default 'default'::text not null,
  webhook_id uuid,
  url text,
  secret text,
  endpoint text not null,
  session_id uuid,
  run_id uuid,
  type text not null,
  body bytea not null,
  state text default 'waiting'::text not null,
  attempts integer default 0 not null,
  dispatch integer default 0 not null,
  claim_id uuid,
  claimed_by text,
  due_at timestamp with time zone default clock_timestamp() not null,
  last_status integer,
  last_error text,
  took_ms integer,
  created_at timestamp(3) with time zone default clock_timestamp() not null,
  finished_at timestamp with time zone,
  constraint webhook_deliveries_pkey PRIMARY KEY (id),
  constraint webhook_deliveries_check CHECK (((webhook_id IS NULL) = ((url IS NOT NULL) AND (secret IS NOT NULL)))),
  constraint webhook_deliveries_check1 CHECK (((claim_id IS NULL) OR (state = 'sending'::text))),
  constraint webhook_deliveries_state_check CHECK ((state = ANY (ARRAY['waiting'::text, 'sending'::text, 'delivered'::text, 'failed'::text])))
);

create table webhooks (
  id uuid not null,
  tenant_id text default 'default'::text not null,
  key text,
  declared_by text,
  url text not null,
  secret text not null,
  events text[] not null,
  agent_name text,
  disabled_for text,
  failing_since timestamp with time zone,
  created_at timestamp(3) with time zone default clock_timestamp() not null,
  updated_at timestamp with time zone default clock_timestamp() not null,
  constraint webhooks_pkey PRIMARY KEY (id),
  constraint webhooks_disabled_for_check CHECK ((disabled_for = ANY (ARRAY['request'::text, 'gone'::text, 'failing'::text, 'undeclared'::text]))),
  constraint webhooks_events_check CHECK ((events <@ ARRAY['run:completed'::text, 'run:failed'::text, 'run:cancelled'::text, 'run:incomplete'::text, 'run:requires-action'::text]))
);

create table workers (
  id text not null,
  kinds text[] not null,
  engine integer default 1 not null,
  lock_key bigint not null,
  locked_at timestamp with time zone default clock_timestamp() not null,
  lost_alone boolean default false not null,
  seen_at timestamp with time zone default clock_timestamp() not null,
  constraint workers_pkey PRIMARY KEY (id),
  constraint workers_lock_key_key UNIQUE (lock_key),
  constraint workers_kinds_check CHECK ((kinds <@ ARRAY['step'::text, 'compaction'::text, 'prune'::text, 'delivery'::text]))
);

create table write_probe (
  filler text not null
);

CREATE INDEX audit_log_listed ON public.audit_log USING btree (tenant_id, seq DESC);
CREATE INDEX blob_refs_of_session ON public.blob_refs USING btree (session_id);
CREATE INDEX children_by_run ON public.children USING btree (run_id);
CREATE INDEX children_by_session ON public.children USING btree (session_id);
CREATE INDEX children_due ON public.children USING btree (tenant_id, due_at) WHERE (due_at IS NOT NULL);
CREATE INDEX children_of_call_run ON public.children USING btree (parent_run_id);
CREATE INDEX children_of_parent ON public.children USING btree (parent_session_id, state);
CREATE INDEX compactions_of_run ON public.compactions USING btree (run_id) WHERE (run_id IS NOT NULL);
CREATE INDEX compactions_running ON public.compactions USING btree (session_id) WHERE (state = 'running'::text);
CREATE INDEX console_logins_of_key ON public.console_logins USING btree (key_id, created_at DESC);
CREATE INDEX events_of_maintenance ON public.events USING btree (run_id) WHERE (type = ANY (ARRAY['prune:complete'::text, 'llm:adapted'::text]));
CREATE INDEX idempotency_keys_expiring ON public.idempotency_keys USING btree (tenant_id, expires_at);
CREATE INDEX inbox_of_run ON public.inbox USING btree (run_id, seq) WHERE (run_id IS NOT NULL);
CREATE INDEX inbox_waiting ON public.inbox USING btree (session_id, seq) WHERE (consumed_message_seq IS NULL);
CREATE INDEX inbox_with_webhook ON public.inbox USING btree (run_id) WHERE (webhook IS NOT NULL);
CREATE INDEX message_words_found ON public.message_words USING gin (words) WITH (gin_pending_list_limit='1024');
CREATE INDEX message_words_listed ON public.message_words USING btree (tenant_id, created_at DESC, session_id DESC);
CREATE INDEX messages_of_step ON public.messages USING btree (run_id, step_no);
CREATE INDEX parts_unsettled ON public.parts USING btree (session_id) WHERE ((state)::text = ANY (ARRAY['pending'::text, 'awaiting_approval'::text, 'awaiting_output'::text, 'running'::text, 'unknown'::text]));
CREATE INDEX parts_waiting ON public.parts USING btree (tenant_id, message_id, idx) WHERE (((required_action)::text <> 'child'::text) AND (answer IS NULL) AND ((state)::text = ANY (ARRAY['awaiting_approval'::text, 'awaiting_output'::text, 'unknown'::text])));
CREATE INDEX provider_pauses_of_model ON public.provider_pauses USING btree (model, until_at);
CREATE INDEX runs_awaiting_answer ON public.runs USING btree (approval_expires_at) WHERE (((status)::text = 'requires_action'::text) AND (approval_expires_at IS NOT NULL));
CREATE INDEX runs_by_status ON public.runs USING btree (tenant_id, status, created_at DESC, id DESC);
CREATE INDEX runs_leased ON public.runs USING btree (lease_expires_at) WHERE (is_claimed AND ((status)::text = ANY (ARRAY['running'::text, 'cancelling'::text])));
CREATE INDEX runs_listed ON public.runs USING btree (tenant_id, created_at DESC, id DESC);
CREATE INDEX runs_of_session ON public.runs USING btree (session_id, created_at DESC, id DESC);
CREATE UNIQUE INDEX runs_one_active_per_session ON public.runs USING btree (session_id) WHERE ((status)::text = ANY (ARRAY['queued'::text, 'running'::text, 'requires_action'::text, 'cancelling'::text]));
CREATE UNIQUE INDEX runs_tenant_slot ON public.runs USING btree (tenant_id, tenant_slot) WHERE (is_claimed AND (tenant_slot IS NOT NULL));
CREATE INDEX runs_throttled ON public.runs USING btree (tenant_id, created_at, id) WHERE (throttled_at IS NOT NULL);
CREATE INDEX runs_unclaimed ON public.runs USING btree (pending_kind, tenant_id, due_at) WHERE (due_at IS NOT NULL);
CREATE INDEX schedules_due ON public.schedules USING btree (tenant_id, due_at) WHERE ((paused_reason IS NULL) AND (due_at IS NOT NULL));
CREATE UNIQUE INDEX schedules_key ON public.schedules USING btree (tenant_id, key) WHERE (key IS NOT NULL);
CREATE INDEX schedules_listed ON public.schedules USING btree (tenant_id, created_at DESC, id DESC);
CREATE INDEX schedules_of_session ON public.schedules USING btree (session_id) WHERE (session_id IS NOT NULL);
CREATE INDEX session_words_found ON public.session_words USING gin (words);
CREATE INDEX session_words_listed ON public.session_words USING btree (tenant_id, created_at DESC, session_id DESC);
CREATE INDEX sessions_by_agent ON public.sessions USING btree (tenant_id, agent_name, created_at DESC, id DESC);
CREATE INDEX sessions_by_conversation ON public.sessions USING btree (tenant_id, conversation_head) WHERE (conversation_head IS NOT NULL);
CREATE UNIQUE INDEX sessions_by_external_key ON public.sessions USING btree (tenant_id, external_key) WHERE (external_key IS NOT NULL);
CREATE INDEX sessions_by_metadata ON public.sessions USING gin (metadata jsonb_path_ops);
CREATE INDEX sessions_by_question ON public.sessions USING btree (tenant_id, conversation_asked) WHERE (conversation_asked IS NOT NULL);
CREATE INDEX sessions_by_status ON public.sessions USING btree (tenant_id, status, created_at DESC, id DESC);
CREATE INDEX sessions_expiring ON public.sessions USING btree (tenant_id, created_at, id) WHERE (expires_at IS NOT NULL);
CREATE INDEX sessions_listed ON public.sessions USING btree (tenant_id, created_at DESC, id DESC);
CREATE INDEX sessions_of_active_run ON public.sessions USING btree (active_run_id) WHERE (active_run_id IS NOT NULL);
CREATE INDEX sessions_of_parent ON public.sessions USING btree (parent_session_id, created_at, id) WHERE (parent_session_id IS NOT NULL);
CREATE INDEX sessions_of_root ON public.sessions USING btree (root_session_id) WHERE (root_session_id IS NOT NULL);
CREATE INDEX sessions_words_due ON public.sessions USING btree (tenant_id, words_due_at) WHERE (words_due_at IS NOT NULL);
CREATE INDEX silent_endpoints_oldest ON public.silent_endpoints USING btree (silent_at);
CREATE UNIQUE INDEX sql_functions_one_text ON public.sql_functions USING btree (name) WHERE (replaced_at IS NULL);
CREATE INDEX webhook_deliveries_due ON public.webhook_deliveries USING btree (tenant_id, due_at) WHERE (state = 'waiting'::text);
CREATE INDEX webhook_deliveries_ended ON public.webhook_deliveries USING btree (endpoint, created_at DESC, id DESC) WHERE (state = ANY (ARRAY['delivered'::text, 'failed'::text]));
CREATE INDEX webhook_deliveries_listed ON public.webhook_deliveries USING btree (tenant_id, created_at DESC, id DESC);
CREATE INDEX webhook_deliveries_of_run ON public.webhook_deliveries USING btree (run_id) WHERE (run_id IS NOT NULL);
CREATE INDEX webhook_deliveries_of_session ON public.webhook_deliveries USING btree (session_id) WHERE (session_id IS NOT NULL);
CREATE INDEX webhook_deliveries_of_webhook ON public.webhook_deliveries USING btree (webhook_id, created_at DESC, id DESC) WHERE (webhook_id IS NOT NULL);
CREATE INDEX webhook_deliveries_sending ON public.webhook_deliveries USING btree (endpoint, due_at) WHERE (state = 'sending'::text);
CREATE INDEX webhook_deliveries_waiting ON public.webhook_deliveries USING btree (tenant_id, endpoint, due_at) WHERE (state = 'waiting'::text);
CREATE UNIQUE INDEX webhooks_key ON public.webhooks USING btree (tenant_id, key) WHERE (key IS NOT NULL);
CREATE INDEX webhooks_listed ON public.webhooks USING btree (tenant_id, created_at DESC, id DESC);

alter table blob_refs add constraint blob_refs_blob_id_fkey FOREIGN KEY (blob_id) REFERENCES blobs(id) ON DELETE RESTRICT;
alter table blob_refs add constraint blob_refs_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions(id) ON DELETE CASCADE;
alter table children add constraint children_parent_session_id_fkey FOREIGN KEY (parent_session_id) REFERENCES sessions(id) ON DELETE CASCADE;
alter table compactions add constraint compactions_run_id_fkey FOREIGN KEY (run_id) REFERENCES runs(id) ON DELETE SET NULL;
alter table compactions add constraint compactions_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions(id) ON DELETE CASCADE;
alter table console_logins add constraint console_logins_key_id_fkey FOREIGN KEY (key_id) REFERENCES api_keys(id) ON DELETE CASCADE;
alter table events add constraint events_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions(id) ON DELETE CASCADE;
alter table inbox add constraint inbox_run_id_fkey FOREIGN KEY (run_id) REFERENCES runs(id) ON DELETE SET NULL;
alter table inbox add constraint inbox_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions(id) ON DELETE CASCADE;
alter table message_words add constraint message_words_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions(id) ON DELETE CASCADE;
alter table messages add constraint messages_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions(id) ON DELETE CASCADE;
alter table part_chunks add constraint part_chunks_message_id_session_id_fkey FOREIGN KEY (message_id, session_id) REFERENCES messages(id, session_id) ON DELETE CASCADE;
alter table parts add constraint parts_message_id_session_id_fkey FOREIGN KEY (message_id, session_id) REFERENCES messages(id, session_id) ON DELETE CASCADE;
alter table runs add constraint runs_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions(id) ON DELETE CASCADE;
alter table schedule_fires add constraint schedule_fires_schedule_id_fkey FOREIGN KEY (schedule_id) REFERENCES schedules(id) ON DELETE CASCADE;
alter table schedules add constraint schedules_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions(id) ON DELETE SET NULL;
alter table session_agents add constraint session_agents_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions(id) ON DELETE CASCADE;
alter table session_reverts add constraint session_reverts_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions(id) ON DELETE CASCADE;
alter table session_words add constraint session_words_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions(id) ON DELETE CASCADE;
alter table sessions add constraint sessions_active_run_fk FOREIGN KEY (active_run_id) REFERENCES runs(id) DEFERRABLE INITIALLY DEFERRED;
alter table sessions add constraint sessions_parent_session_id_fkey FOREIGN KEY (parent_session_id) REFERENCES sessions(id) ON DELETE SET NULL;
alter table sessions add constraint sessions_root_session_id_fkey FOREIGN KEY (root_session_id) REFERENCES sessions(id) ON DELETE SET NULL;
alter table webhook_deliveries add constraint webhook_deliveries_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions(id) ON DELETE CASCADE;
alter table webhook_deliveries add constraint webhook_deliveries_webhook_id_fkey FOREIGN KEY (webhook_id) REFERENCES webhooks(id) ON DELETE CASCADE;

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

CREATE OR REPLACE FUNCTION public.baton_apply_response(p_session uuid, p_response jsonb, p_may_start boolean DEFAULT true, p_only_open boolean DEFAULT false)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
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
end $function$;

CREATE OR REPLACE FUNCTION public.baton_ask_children(p_run runs, p_calls jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  v_call jsonb;
  v_child jsonb;
  v_count integer;
  v_after integer;
  v_reserved record;
  v_steps bigint;
  v_tokens bigint;
  v_cost double precision;
  v_limits jsonb;
  v_used_up text;
  v_active integer;
begin
  select count(*) into v_count from jsonb_array_elements(p_calls) as call where call -> 'child' is not null;
  if v_count = 0 then return; end if;
  select coalesce(sum((limits ->> 'maxSteps')::bigint), 0) as steps,
      coalesce(sum((limits ->> 'maxTokens')::bigint), 0) as tokens,
      coalesce(sum((limits ->> 'maxCostUsd')::double precision), 0) as cost
    into v_reserved from children
    where parent_run_id = p_run.id and state in ('held', 'asked', 'running', 'ended');
  v_steps := p_run.max_steps - p_run.step_count - p_run.children_steps - v_reserved.steps - 1;
  v_tokens := p_run.budget_tokens - p_run.input_tokens - p_run.output_tokens - p_run.children_tokens
    - v_reserved.tokens;
  -- An unknown cost may have used up the budget.
  v_cost := case when p_run.budget_cost_usd is not null then
    coalesce(p_run.budget_cost_usd - p_run.cost_usd - p_run.children_cost_usd - v_reserved.cost, 0) end;
  v_after := v_count;
  for v_call in
    select call from jsonb_array_elements(p_calls) with ordinality as e (call, ord)
    where call -> 'child' is not null order by ord
  loop
    v_child := v_call -> 'child';
    v_used_up := case
      when v_steps < 1 then 'maxSteps'
      when v_tokens < 1 then 'maxTokens'
      when v_cost <= 0 then 'maxCostUsd' end;
    v_limits := '{}';
    if v_used_up is null then
      v_limits := jsonb_strip_nulls(v_child -> 'limits' || jsonb_build_object(
        'maxSteps', least((v_child -> 'limits' ->> 'maxSteps')::bigint,
          case v_steps / v_after when 0 then 1 else v_steps / v_after end),
        'maxTokens', least((v_child -> 'limits' ->> 'maxTokens')::bigint,
          case v_tokens / v_after when 0 then 1 else v_tokens / v_after end),
        'maxCostUsd', least((v_child -> 'limits' ->> 'maxCostUsd')::double precision, v_cost / v_after)));
      v_steps := v_steps - (v_limits ->> 'maxSteps')::bigint;
      v_tokens := v_tokens - (v_limits ->> 'maxTokens')::bigint;
      v_cost := v_cost - (v_limits ->> 'maxCostUsd')::double precision;
    end if;
    v_after := v_after - 1;
    select count(*) into v_active from children
      where parent_session_id = p_run.session_id and state in ('asked', 'running')
        and tool_name = v_child ->> 'toolName';
    insert into children (parent_session_id, message_id, idx, tenant_id, parent_run_id, tool_name, agent_name, mode,
        limits, max_parallel, session_id, run_id, state, result, due_at)
      values (p_run.session_id, (v_call ->> 'messageId')::uuid, (v_call ->> 'index')::integer, p_run.tenant_id, p_run.id,
        v_child ->> 'toolName', v_child ->> 'agent', v_child ->> 'mode', v_limits,
        (v_child ->> 'maxParallel')::integer, (v_child ->> 'sessionId')::uuid, (v_child ->> 'runId')::uuid,
        case
          when v_used_up is not null then 'ended'
          when v_active >= (v_child ->> 'maxParallel')::integer then 'held'
          else 'asked' end,
        case when v_used_up is not null then jsonb_build_object('status', 'refused',
          'error', jsonb_build_object('code', 'limit_exceeded', 'message',
            'limits.' || v_used_up || ': the run has nothing of it left for a child. Do the rest without one.'),
          'steps', 0, 'tokens', 0, 'costUsd', 0) end,
        case when v_used_up is not null or v_active < (v_child ->> 'maxParallel')::integer then clock_timestamp() end)
      on conflict do nothing;
  end loop;
  update runs set children_count = children_count + v_count where id = p_run.id;
end $function$;

CREATE OR REPLACE FUNCTION public.baton_begin_cancel(p_session uuid, p_run uuid, p_parks boolean)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
declare
  v_children integer;
begin
  update runs set status = 'cancelling', cancel_requested_at = clock_timestamp(), throttled_at = null,
    cancel_inbox_seq = case when p_parks then (select inbox_seq from sessions where id = p_session) else 0 end
    where id = p_run returning children_count into v_children;
  if v_children > 0 then perform baton_stop_children(p_run, true); end if;
  return baton_append_events(p_session, p_run, jsonb_build_array(
    jsonb_build_object('type', 'run:cancelling', 'data', jsonb_build_object('runId', baton_public_id('run', p_run)))));
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
  v_events jsonb := '[]';
  v_start bigint;
  v_summary bigint;
begin
  -- A final answer takes no new message: those that wait are for a run that can still call tools.
  if p_run.final_answer_for is null then
    perform baton_drain_inbox(p_run.session_id, p_run.id, p_run.pending_no);
  end if;
  if p_run.started_at is null then
    update runs set started_at = clock_timestamp() where id = p_run.id;
    v_events := v_events || jsonb_build_object(
      'type', 'run:started', 'data', jsonb_build_object('runId', baton_public_id('run', p_run.id)));
  end if;
  v_events := v_events || baton_step_started(p_run, p_message);
  -- One update for all columns: the row is wide, and every step writes it several times.
  update sessions set epoch = p_run.epoch, message_seq = message_seq + 1,
    event_seq = event_seq + jsonb_array_length(v_events), updated_at = clock_timestamp()
    where id = p_run.session_id returning message_seq, event_seq, view_start_seq, summary_message_seq
    into opened_seq, last_event_seq, v_start, v_summary;
  perform baton_open_message(p_run, p_message, opened_seq, last_event_seq, v_start, v_summary);
  perform baton_insert_events(p_run.session_id, p_run.tenant_id, p_run.id, last_event_seq, v_events);
  select page.view, page.next_after into view, next_after from baton_view(p_run.session_id, p_after) as page;
end $function$;

CREATE OR REPLACE FUNCTION public.baton_cancel_childless(p_runs uuid[])
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
declare
  v_run uuid;
  v_session uuid;
  v_last bigint;
  v_cancelled jsonb := '[]';
begin
  for v_run, v_session in
    select id, session_id from runs where id = any (p_runs) and status = 'running' and claim_id is not null order by id
  loop
    perform 1 from sessions where id = v_session for no key update skip locked;
    continue when not found;
    perform 1 from runs where id = v_run and children_count = 0 for no key update;
    continue when not found;
    v_last := baton_mark_cancelling(v_session, v_run, true);
    continue when v_last is null;
    v_cancelled := v_cancelled || jsonb_build_object('runId', v_run, 'sessionId', v_session, 'eventSeq', v_last);
  end loop;
  return v_cancelled;
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

CREATE OR REPLACE FUNCTION public.baton_cancel_promised(p_session uuid, p_run uuid)
 RETURNS bigint
 LANGUAGE plpgsql
AS $function$
declare
  v_run runs;
begin
  insert into runs (id, tenant_id, session_id, status, cancel_requested_at, cancel_inbox_seq, finished_at)
    select p_run, tenant_id, id, 'cancelled', clock_timestamp(), inbox_seq, clock_timestamp()
    from sessions where id = p_session returning * into v_run;
  update sessions set next_run_id = null, requested_resume = null where id = p_session;
  update inbox set run_id = p_run
    where session_id = p_session and consumed_message_seq is null and run_id is null;
  perform baton_write_deliveries(v_run);
  perform baton_end_child(v_run);
  return baton_append_events(p_session, p_run, jsonb_build_array(jsonb_build_object(
    'type', 'run:cancelled', 'data', jsonb_build_object('runId', baton_public_id('run', p_run), 'stillRan', '[]'::jsonb))));
end $function$;

CREATE OR REPLACE FUNCTION public.baton_cancel_waiting(p_cancels jsonb, p_end jsonb)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
declare
  c_settled constant text[] := array['completed', 'error', 'denied'];
  v_run uuid;
  v_session uuid;
  v_calls jsonb;
  v_finish jsonb;
  v_next_run uuid;
  v_written record;
  v_follow_up jsonb;
  v_ended jsonb := '[]';
begin
  for v_run, v_session, v_calls, v_finish, v_next_run in
    select "runId", "sessionId", calls, finish, "nextRunId" from jsonb_to_recordset(p_cancels)
      as c ("runId" uuid, "sessionId" uuid, calls jsonb, finish jsonb, "nextRunId" uuid) order by "runId"
  loop
    perform 1 from sessions where id = v_session and active_run_id = v_run for no key update skip locked;
    continue when not found;
    perform 1 from runs where id = v_run and status = 'requires_action' and cancel_requested_at is null
      for no key update;
    continue when not found;
    continue when exists (select 1 from compactions where session_id = v_session and state = 'running');
    continue when (
      select count(*) <> jsonb_array_length(v_calls)
        or coalesce(bool_or(p.answer is not null or p.outside_work is not null or p.state is distinct from call ->> 'was'), false)
      from messages m join parts p on p.session_id = m.session_id and p.message_id = m.id
        left join jsonb_array_elements(v_calls) as given (call)
          on (call ->> 'messageId')::uuid = p.message_id and (call ->> 'index')::integer = p.idx
      where m.run_id = v_run and p.state <> all (c_settled));
    update runs set cancel_requested_at = clock_timestamp(),
      cancel_inbox_seq = (select inbox_seq from sessions where id = v_session) where id = v_run;
    update parts set state = call ->> 'state', content = content || jsonb_build_object('output', call -> 'output'),
      finished_at = clock_timestamp()
      -- `offset 0` as in baton_take_branch.
      from (select v_session as id, call from jsonb_array_elements(v_calls) as e (call) offset 0) as closed
      where session_id = closed.id and message_id = (call ->> 'messageId')::uuid
        and idx = (call ->> 'index')::integer;
    v_written := baton_write_branch(v_run, p_end, v_finish);
    v_follow_up := baton_follow_run_end(v_run, v_next_run);
    v_ended := v_ended || jsonb_build_object('runId', v_run, 'sessionId', v_session,
      'eventSeq', coalesce((v_follow_up -> 'eventSeq'), to_jsonb(v_written.last_event_seq)), 'job', v_follow_up -> 'job');
  end loop;
  return v_ended;
end $function$;

CREATE OR REPLACE FUNCTION public.baton_carry_on(p_run runs, p_carry jsonb, p_opened bigint, p_last bigint)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_session sessions;
  v_message uuid := (p_carry ->> 'messageId')::uuid;
  v_after bigint := 0;
  v_opened bigint := p_opened;
  v_last bigint := p_last;
  v_begun record;
  v_view json;
  v_next_after bigint;
begin
  -- As one value, as in baton_lock_claimed_run.
  v_session := (select session from sessions as session where id = p_run.session_id);
  -- As in baton_claim_run: a view of commits that a failover has lost is not trusted.
  if v_session.view_version = (p_carry ->> 'viewVersion')::bigint and exists (select 1 from messages
      where id = (p_carry ->> 'viewMessageId')::uuid and session_id = v_session.id
        and seq = (p_carry ->> 'viewAfterSeq')::bigint + 1) then
    v_after := (p_carry ->> 'viewAfterSeq')::bigint;
  end if;
  if v_opened is not null then
    select page.view, page.next_after into v_view, v_next_after from baton_view(v_session.id, v_after) as page;
  elsif not baton_is_used_up(p_run) then
    v_begun := baton_begin_step(p_run, v_message, v_after);
    v_view := v_begun.view;
    v_next_after := v_begun.next_after;
    v_opened := v_begun.opened_seq;
    v_last := v_begun.last_event_seq;
  end if;
  return json_build_object(
    'outcome', 'claimed',
    'epoch', p_run.epoch,
    'cancelRequested', false,
    'interruptedMessageId', null,
    'view', v_view,
    'viewAfterSeq', v_after,
    'viewNextAfter', v_next_after,
    'viewVersion', v_session.view_version,
    'messageSeq', v_opened,
    'eventSeq', v_last,
    'facts', baton_claim_facts(v_session, p_run));
end $function$;

CREATE OR REPLACE FUNCTION public.baton_claim_facts(p_session sessions, p_run runs)
 RETURNS json
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return json_build_object(
    'modelMemory', baton_model_memory(coalesce(
      case when p_run.model_position > 0 then p_session.agent_snapshot -> 'fallbacks' ->> (p_run.model_position - 1) end,
      p_session.agent_snapshot ->> 'model'), p_session.tenant_id),
    'session', json_build_object('id', p_session.id, 'tenantId', p_session.tenant_id,
      'agentName', p_session.agent_name, 'agentSnapshot', p_session.agent_snapshot,
      'contextState', p_session.context_state),
    'run', json_build_object('id', p_run.id, 'kind', p_run.kind, 'attempt', p_run.attempt,
      -- A run with a limit of steps shares it with its children.
      'stepCount', p_run.step_count + case when p_run.max_steps is null then 0 else p_run.children_steps end,
      'isChild', p_session.parent_session_id is not null,
      'modelPosition', p_run.model_position,
      'maxSteps', p_run.max_steps, 'budget', json_build_object(
        'maxTokens', p_run.budget_tokens, 'maxCostUsd', p_run.budget_cost_usd,
        'usedTokens', p_run.input_tokens + p_run.output_tokens + p_run.children_tokens,
        'usedCostUsd', p_run.cost_usd + p_run.children_cost_usd),
      'finalAnswerFor', p_run.final_answer_for,
      'output', case when p_run.output_format is not null then
        json_build_object('format', p_run.output_format, 'state', p_run.output_state) end,
      'timeLeftMs',
        ceil(extract(epoch from coalesce(p_run.final_answer_until, p_run.deadline_at) - clock_timestamp()) * 1000),
      'resumeCount', p_run.resume_count,
      'waitedMs', greatest(0, round(extract(epoch from clock_timestamp() - p_run.pending_at) * 1000)),
      'traceparent', p_run.traceparent,
      'attemptTraceparent', p_run.attempt_traceparent));
end $function$;

CREATE OR REPLACE FUNCTION public.baton_claim_run(p_run uuid, p_kind text, p_no integer, p_dispatch integer, p_claim uuid, p_worker text, p_lease_ms integer, p_engine integer, p_message uuid, p_tenant_limit integer, p_known_version bigint, p_known_seq bigint, p_known_message uuid, p_code text[])
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
begin
  if p_bytes = 0 then return; end if;
  update stored_bytes set bytes = bytes + p_bytes where tenant_id = p_tenant_id and share = (
    select share from stored_bytes where tenant_id = p_tenant_id order by share limit 1 for no key update skip locked);
  if not found then
    insert into stored_bytes (tenant_id, share, bytes)
    values (p_tenant_id, floor(random() * 2147483647)::integer, p_bytes);
  end if;
end $function$;

CREATE OR REPLACE FUNCTION public.baton_delivery_body(p_id uuid, p_type text, p_data json)
 RETURNS bytea
 LANGUAGE plpgsql
AS $function$
begin
  return convert_to(json_build_object(
    'id', baton_public_id('dlv', p_id),
    'type', p_type,
    'timestamp', to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
    'data', p_data)::text, 'UTF8');
end $function$;

CREATE OR REPLACE FUNCTION public.baton_delivery_data(p_run runs, p_session sessions)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
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
end $function$;

CREATE OR REPLACE FUNCTION public.baton_dispatch_deliveries(p_slots integer, p_per_endpoint integer, p_silent integer, p_endpoints integer, p_unclaimed_ms integer)
 RETURNS TABLE(delivery_id uuid, dispatch_no integer)
 LANGUAGE plpgsql
AS $function$
declare
  v_now timestamptz := clock_timestamp();
  v_slots integer;
  v_share integer;
  v_free integer;
begin
  if not pg_try_advisory_xact_lock(1652651122, 'webhook_deliveries'::regclass::oid::integer) then return; end if;
  update webhook_deliveries d set state = 'waiting', claim_id = null, claimed_by = null, due_at = v_now
    -- An array is chosen once: a plan may ask a subquery with a limit again for every row.
    where d.id = any(array(
      select s.id from webhook_deliveries s where s.state = 'sending' and s.claim_id is not null
        and (s.due_at <= v_now or not exists (select 1 from workers where workers.id = s.claimed_by))
      for update skip locked));
  return query
    update webhook_deliveries d set due_at = v_now + make_interval(secs => p_unclaimed_ms / 1000.0)
    where d.id = any(array(
      select s.id from webhook_deliveries s where s.state = 'sending' and s.claim_id is null and s.due_at <= v_now
      for update skip locked))
    returning d.id, d.dispatch;
  select p_slots * greatest(1, count(*)) into v_slots from workers where 'delivery' = any (kinds);
  v_share := greatest(1, v_slots / 4);
  select v_slots - count(*) into v_free from webhook_deliveries s where s.state = 'sending';
  return query
    with recursive tenants as (
      (select w.tenant_id as id from webhook_deliveries w where w.state = 'waiting' order by w.tenant_id limit 1)
      union all
      select (select w.tenant_id from webhook_deliveries w where w.state = 'waiting' and w.tenant_id > t.id
        order by w.tenant_id limit 1) from tenants t where t.id is not null
    ), sending as materialized (
      select s.tenant_id, s.endpoint, count(*)::integer as deliveries, exists (
          select 1 from silent_endpoints e where e.endpoint = s.endpoint) as is_silent
        from webhook_deliveries s where s.state = 'sending' group by s.tenant_id, s.endpoint
    ), walked as materialized (
      select t.id as tenant_id, e.endpoint from tenants t cross join lateral (
        with recursive walk as (
          (select w.endpoint, 1 as nth from webhook_deliveries w where w.state = 'waiting' and w.tenant_id = t.id
            and w.endpoint > coalesce((select after_endpoint from delivery_cursors where tenant_id = t.id), '')
            order by w.endpoint limit 1)
          union all
          select (select w.endpoint from webhook_deliveries w where w.state = 'waiting' and w.tenant_id = t.id
              and w.endpoint > k.endpoint order by w.endpoint limit 1), k.nth + 1
            from walk k where k.endpoint is not null and k.nth < p_endpoints
        ) select walk.endpoint from walk where walk.endpoint is not null
      ) as e
      where v_free > 0 and t.id is not null and exists (
        select 1 from webhook_deliveries w where w.state = 'waiting' and w.tenant_id = t.id and w.due_at <= v_now)
    ), cut as (
      insert into delivery_cursors as cursors (tenant_id, after_endpoint)
        select w.tenant_id, max(w.endpoint) from walked w group by w.tenant_id having count(*) = p_endpoints
        on conflict (tenant_id) do update set after_endpoint = excluded.after_endpoint
    ), begun_again as (
      delete from delivery_cursors cursors using (
          select t.id from tenants t left join walked w on w.tenant_id = t.id group by t.id having count(w) < p_endpoints
        ) as whole
        where v_free > 0 and cursors.tenant_id = whole.id
    ), due as (
      select e.tenant_id, e.endpoint, w.id, w.due_at, exists (
          select 1 from silent_endpoints x where x.endpoint = e.endpoint) as is_silent
        from walked e cross join lateral (
          select n.id, n.due_at from webhook_deliveries n
          where n.state = 'waiting' and n.tenant_id = e.tenant_id and n.endpoint = e.endpoint and n.due_at <= v_now
          order by n.due_at
          limit greatest(0, p_per_endpoint - coalesce((
            select s.deliveries from sending s where s.tenant_id = e.tenant_id and s.endpoint = e.endpoint), 0))
        ) as w
    ), bounded as (
      select due.*, row_number() over (partition by due.tenant_id, due.is_silent order by due.due_at, due.id)
          + coalesce((select sum(s.deliveries) from sending s
            where s.tenant_id = due.tenant_id and s.is_silent), 0) as nth_silent
        from due
    ), placed as (
      select b.id, b.endpoint, b.due_at, row_number() over (partition by b.tenant_id order by b.due_at, b.id)
          + coalesce((select sum(s.deliveries) from sending s where s.tenant_id = b.tenant_id), 0) as place
        from bounded b where not b.is_silent or b.nth_silent <= p_silent
    ), chosen as (
      select p.id, p.place, row_number() over (order by p.place, p.due_at, p.id) as nth from placed p
        where p.place <= v_share or (
          select d.state = 'delivered' and d.took_ms <= 1000 from webhook_deliveries d
          where d.endpoint = p.endpoint and d.state in ('delivered', 'failed')
          order by d.created_at desc, d.id desc limit 1)
    )
    update webhook_deliveries d set
      state = 'sending',
      dispatch = d.dispatch + 1,
      due_at = v_now + make_interval(secs => p_unclaimed_ms / 1000.0)
    from chosen c
    where d.id = c.id and d.state = 'waiting' and c.nth <= v_free - case when c.place > v_share then v_share else 0 end
    returning d.id, d.dispatch;
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
  select jsonb_agg(jsonb_strip_nulls(jsonb_build_object('id', baton_public_id('msg', id), 'enqueuedAt', enqueued_at,
      'delivery', delivery, 'origin', nullif(origin, 'user')))
      order by seq),
    jsonb_agg(baton_public_id('msg', id) order by seq), (array_agg(id order by seq))[1]
    into v_items, v_ids, v_message from inbox
    where session_id = p_session and consumed_message_seq is null and run_id is not distinct from p_run
      and seq <= v_upto;
  select jsonb_agg(
      case when total > 1 and ord = 1 then part || jsonb_build_object('queuedNo', no) else part end order by no, ord)
    into v_parts from (
      select content, row_number() over (order by seq) as no, count(*) over () as total from inbox
      where session_id = p_session and consumed_message_seq is null and run_id is not distinct from p_run
      and seq <= v_upto
    ) as taken, jsonb_array_elements(content) with ordinality as e (part, ord);
  update sessions set message_seq = message_seq + 1
    where id = p_session returning message_seq, tenant_id into v_seq, v_tenant;
  update inbox set consumed_message_seq = v_seq
    where session_id = p_session and consumed_message_seq is null and run_id is not distinct from p_run
      and seq <= v_upto;
  insert into messages (id, tenant_id, session_id, seq, role, run_id, step_no, metadata, finished_at)
    values (v_message, v_tenant, p_session, v_seq, 'user', p_run, p_step,
      jsonb_build_object('inbox', v_items), clock_timestamp());
  insert into parts (session_id, message_id, idx, tenant_id, type, content)
    select p_session, v_message, e.ord - 1, v_tenant, e.part ->> 'type', e.part
    from jsonb_array_elements(v_parts) with ordinality as e (part, ord);
  perform baton_append_events(p_session, p_run, jsonb_build_array(
    jsonb_build_object('type', 'message:dequeued', 'data', jsonb_build_object(
      'count', jsonb_array_length(v_ids), 'ids', v_ids, 'coalesced', jsonb_array_length(v_ids) > 1)),
    baton_message_created(p_session, v_message, v_seq, v_parts, v_bytes)));
  return v_seq;
end $function$;

CREATE OR REPLACE FUNCTION public.baton_end_child(p_run runs)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  c_text_chars constant integer := 1000000;
  c_error_chars constant integer := 4096;
  v_text text;
begin
  if p_run.status in ('completed', 'incomplete') then
    select left(string_agg(content ->> 'text', '' order by idx), c_text_chars) into v_text from parts
      where session_id = p_run.session_id and type = 'text' and message_id = (
        select id from messages where run_id = p_run.id and role = 'assistant' and not superseded and not is_summary
          and finish_reason not in ('error', 'aborted')
        order by seq desc limit 1);
  end if;
  update children set
    state = 'ended',
    asks = 0,
    result = jsonb_build_object(
      'status', p_run.status,
      'reason', p_run.status_reason,
      'error', case when p_run.error is not null then jsonb_build_object(
        'code', p_run.error ->> 'code', 'message', left(p_run.error ->> 'message', c_error_chars)) end,
      'text', v_text,
      'steps', p_run.step_count + p_run.children_steps,
      'tokens', p_run.input_tokens + p_run.output_tokens + p_run.children_tokens,
      'costUsd', p_run.cost_usd + p_run.children_cost_usd) || coalesce(p_run.output, '{}'),
    ended_at = clock_timestamp(),
    due_at = clock_timestamp()
    where run_id = p_run.id and state = 'running';
end $function$;

CREATE OR REPLACE FUNCTION public.baton_finish_maintenance(p_run uuid, p_epoch bigint, p_claim uuid, p_finish jsonb)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_run runs := baton_lock_claimed_run(p_run, p_epoch, p_claim);
begin
  if v_run.id is null then return null; end if;
  perform baton_mark_parts(v_run.session_id, p_finish -> 'marks');
  if p_finish -> 'compaction' is not null then
    perform baton_close_compaction(v_run.session_id, p_run, p_finish -> 'compaction');
  end if;
  return baton_take_branch(v_run, p_finish);
end $function$;

CREATE OR REPLACE FUNCTION public.baton_finish_step(p_run uuid, p_epoch bigint, p_claim uuid, p_finish jsonb, p_blobs bytea[])
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_move jsonb;
  v_written jsonb := p_finish -> 'written';
  v_run runs := baton_lock_claimed_run(p_run, p_epoch, p_claim);
begin
  if v_run.id is null then return null; end if;
  -- Streamed text is dropped only where another attempt follows: a cancelled run keeps it.
  if v_run.cancel_requested_at is not null then
    p_finish := p_finish || coalesce(p_finish -> 'keptIfCancelled', '{}');
  end if;
  if p_finish -> 'response' is not null then
    perform baton_apply_response(v_run.session_id, p_finish -> 'response');
  end if;
  for v_no in 1 .. jsonb_array_length(p_finish -> 'moves') loop
    v_move := p_finish -> 'moves' -> (v_no - 1);
    if not baton_move_call(v_run.session_id, v_move, p_blobs[v_no]) then
      raise exception 'a call of message % is not %', v_move ->> 'messageId', v_move -> 'from' using errcode = 'BT001';
    end if;
  end loop;
  if v_written is not null and not exists (select 1 from messages where id = (v_written ->> 'messageId')::uuid
      and session_id = v_run.session_id and finish_reason is not null) then
    raise exception 'message % has no answer any more', v_written ->> 'messageId' using errcode = 'BT001';
  end if;
  -- A cancel leaves calls as they are.
  if v_written is not null and v_run.cancel_requested_at is null and exists (select 1 from parts
      where session_id = v_run.session_id and message_id = (v_written ->> 'messageId')::uuid
        and state in ('pending', 'running') and not v_written -> 'open' @> to_jsonb(idx)) then
    raise exception 'calls of message % have no outcome any more', v_written ->> 'messageId' using errcode = 'BT001';
  end if;
  return baton_take_branch(v_run, p_finish);
end $function$;

CREATE OR REPLACE FUNCTION public.baton_follow_run_end(p_run uuid, p_fresh_id uuid, p_maintenance text DEFAULT NULL::text)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
declare
  v_run runs;
  v_session uuid;
  v_inbox_seq bigint;
  v_promised uuid;
  v_resumes boolean;
  v_requested text;
  v_parked_upto bigint;
  v_next uuid := p_fresh_id;
  v_last bigint;
begin
  select * into v_run from runs where id = p_run;
  v_session := v_run.session_id;
  select inbox_seq, next_run_id, requested_resume is not null, requested_maintenance
    into v_inbox_seq, v_promised, v_resumes, v_requested from sessions where id = v_session;

  -- Messages up to this number are parked. Later ones were accepted after the cancel, or during a maintenance run, so
  -- the run that ends here was not meant for them.
  v_parked_upto := case
    when v_run.cancel_requested_at is not null then v_run.cancel_inbox_seq
    when v_run.kind = 'maintenance' then v_run.start_inbox_seq
    when v_run.status = 'failed' then v_inbox_seq
    when v_run.status_reason = 'context_exhausted' then v_inbox_seq
    else 0 end;

  if v_resumes or exists (
    -- A message of another run is parked since that one was cancelled before it began.
    select 1 from inbox where session_id = v_session and consumed_message_seq is null
      and (run_id is null or run_id = p_run) and seq > v_parked_upto
  ) then
    v_next := coalesce(v_promised, p_fresh_id);
    -- The trace of the new run continues that of the first message it answers, if that has one.
    v_last := baton_start_run(v_session, v_next, 'task', coalesce((
      select traceparent from inbox where session_id = v_session and consumed_message_seq is null
        and traceparent is not null order by seq limit 1), v_run.traceparent));
  elsif v_requested is not null then
    perform baton_take_requested(v_session);
    v_last := baton_start_run(v_session, v_next, 'maintenance', v_run.traceparent, v_requested);
  elsif p_maintenance is not null then
    v_last := baton_start_run(v_session, v_next, 'maintenance', v_run.traceparent, p_maintenance);
  else
    return null;
  end if;
  return jsonb_build_object('job', baton_job_of(v_next), 'eventSeq', v_last);
end $function$;

CREATE OR REPLACE FUNCTION public.baton_given(p_given jsonb)
 RETURNS jsonb
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
begin
  return p_given
    || case when p_given ? 'output' then jsonb_build_object('output', baton_written(p_given -> 'output')::jsonb) else '{}' end
    || case when p_given ? 'args' then jsonb_build_object('args', baton_written(p_given -> 'args')::jsonb) else '{}' end;
end $function$;

CREATE OR REPLACE FUNCTION public.baton_index_words(p_sessions integer, p_per_tenant integer, p_messages integer, p_chars integer)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  v_due record;
  v_from bigint;
  v_upto bigint;
  v_count integer;
  v_looked integer := 0;
  v_ids uuid[] := '{}';
  v_seen timestamptz[] := '{}';
begin
  if not pg_try_advisory_xact_lock(1652651122, 'message_words'::regclass::oid::integer) then return null; end if;
  for v_due in
    with recursive tenants as (
      (select s.tenant_id as id from sessions s where s.words_due_at is not null order by s.tenant_id limit 1)
      union all
      select (select s.tenant_id from sessions s where s.words_due_at is not null and s.tenant_id > t.id
        order by s.tenant_id limit 1) from tenants t where t.id is not null
    )
    select due.* from tenants t cross join lateral (
      select s.id, s.tenant_id, s.created_at, s.words_due_at, row_number() over (order by s.words_due_at) as nth from (
        select n.id, n.tenant_id, n.created_at, n.words_due_at from sessions n
        where n.tenant_id = t.id and n.words_due_at <= clock_timestamp() order by n.words_due_at limit p_per_tenant
      ) as s
    ) as due
    where t.id is not null order by due.nth, due.words_due_at limit p_sessions
  loop
    exit when v_looked >= p_messages;
    select w.indexed_seq into v_from from session_words w join sessions s on s.id = w.session_id
      where w.session_id = v_due.id for no key update of w skip locked for key share of s skip locked;
    continue when not found;
    with looked as (
      select m.id, m.seq, m.finished_at is not null and not m.superseded and not m.is_summary as is_said,
        m.finished_at is null and not m.superseded as is_open
        from messages m where m.session_id = v_due.id and m.seq > v_from order by m.seq limit p_messages - v_looked
    ), written as (
      insert into message_words (session_id, seq, tenant_id, created_at, words)
        select v_due.id, l.seq, v_due.tenant_id, v_due.created_at, array_to_tsvector(array(
            -- So many, because a tsvector has at most a megabyte.
            select v_due.tenant_id || ' ' || word from unnest(baton_split_words(array[said.text])) as word limit 2000)
            -- The stretches of time in which the session was created: searches ask for one of them (WORD_WINDOW_BITS).
            || array(select v_due.tenant_id || ' #' || bits || ':' || (floor(extract(epoch from v_due.created_at))::bigint >> bits)
              from unnest(array[9, 12, 15, 18, 21, 24]) as bits))
          from looked l cross join lateral (
            select left(string_agg(p.content ->> 'text', ' ' order by p.idx), p_chars) as text from parts p
              where p.session_id = v_due.id and p.message_id = l.id and p.type = 'text'
          ) as said
          where l.is_said and said.text <> ''
        on conflict do nothing
    )
    select count(*), coalesce(max(l.seq) - coalesce(bool_or(l.is_open and l.seq = newest.seq), false)::integer, v_from)
      into v_count, v_upto from looked l, (select max(seq) as seq from looked) as newest;
    update session_words set indexed_seq = v_upto where session_id = v_due.id and indexed_seq < v_upto;
    v_looked := v_looked + v_count;
    if v_looked < p_messages then
      v_ids := v_ids || v_due.id;
      v_seen := v_seen || v_due.words_due_at;
    end if;
  end loop;
  -- By the very time that was seen: a run that has ended since has made the session due anew.
  update sessions s set
    words_due_at = case s.status when 'busy' then clock_timestamp() + interval '1 minute' end
    from unnest(v_ids, v_seen) as done (id, seen)
    where s.id = done.id and s.words_due_at = done.seen
      and s.id = any(array(select id from sessions where id = any(v_ids) for no key update skip locked));
  return v_looked;
end $function$;

CREATE OR REPLACE FUNCTION public.baton_insert_events(p_session uuid, p_tenant text, p_run uuid, p_last bigint, p_events jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  insert into events (session_id, seq, tenant_id, run_id, type, data)
    select p_session, p_last - jsonb_array_length(p_events) + e.ord, p_tenant, p_run,
      e.event ->> 'type', e.event -> 'data'
    from jsonb_array_elements(p_events) with ordinality as e (event, ord);
end $function$;

CREATE OR REPLACE FUNCTION public.baton_is_adapted(p_kind text, p_learned_at timestamp with time zone)
 RETURNS boolean
 LANGUAGE sql
 STABLE
AS $function$
  select p_learned_at > clock_timestamp() -
    case
      when p_kind in ('simple_schema', 'omit_tool', 'omit_signed_thoughts', 'without_thinking') then interval '1 day'
      else interval '30 days'
    end
$function$;

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
  -- Apart from the query below, so that a run within its limits costs none.
  if not (
    coalesce(p_run.deadline_at <= clock_timestamp(), false)
    or coalesce(p_run.input_tokens + p_run.output_tokens + p_run.children_tokens >= p_run.budget_tokens, false)
    -- An unknown cost may have exceeded the budget.
    or coalesce(p_run.cost_usd + p_run.children_cost_usd >= p_run.budget_cost_usd, p_run.budget_cost_usd is not null)
  ) then return false; end if;
  return exists (select 1 from messages where run_id = p_run.id and role = 'user' and not is_summary);
end $function$;

CREATE OR REPLACE FUNCTION public.baton_job_of(p_run uuid)
 RETURNS jsonb
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return (select baton_pending_job(runs) from runs where id = p_run);
end $function$;

CREATE OR REPLACE FUNCTION public.baton_keep_session_agent()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    begin
      insert into session_agents (session_id, upto_seq, tenant_id, snapshot)
        values (old.id, old.message_seq, old.tenant_id, old.agent_snapshot)
        on conflict do nothing;
      return null;
    end $function$;

CREATE OR REPLACE FUNCTION public.baton_limit_run(p_session uuid, p_run uuid, p_limits jsonb, p_lowered jsonb, p_resumes boolean)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  v_given jsonb;
  v_limits jsonb;
  v_lowered jsonb;
  v_output json;
begin
  v_given := coalesce((
      select case when status = 'completed' then '{}' else limits end from runs
      where p_resumes and session_id = p_session and kind = 'task' and limits is not null
      order by created_at desc, id desc limit 1), '{}')
    || coalesce((
      select limits from inbox where session_id = p_session and consumed_message_seq is null and limits <> '{}'
      order by seq desc limit 1), '{}')
    || p_limits;
  select coalesce(agent_snapshot -> 'limits', '{}') || v_given, agent_snapshot -> 'output' into v_limits, v_output from sessions where id = p_session;
  -- 100 is DEFAULT_MAX_STEPS, which holds where nobody names a limit of steps.
  select jsonb_object_agg(name, least(lowest, (v_limits ->> name)::numeric, case when name = 'maxSteps' and not v_limits ? name then 100 end))
    into v_lowered from (
      select name, min(value::numeric) as lowest from (
        select p_lowered as lowered
        union all
        select lowered from inbox where session_id = p_session and consumed_message_seq is null and lowered <> '{}'
      ) as sets, jsonb_each_text(lowered) as e (name, value) group by name
    ) as lowest_of_each;
  v_limits := v_limits || coalesce(v_lowered, '{}');
  v_given := v_given || coalesce(v_lowered, '{}');
  update runs set
    limits = v_given,
    max_steps = (v_limits ->> 'maxSteps')::integer,
    budget_tokens = (v_limits ->> 'maxTokens')::bigint,
    budget_cost_usd = (v_limits ->> 'maxCostUsd')::double precision,
    output_format = coalesce(
      (select output from inbox where session_id = p_session and consumed_message_seq is null and output is not null
        order by seq desc limit 1),
      (select output_format from (
        select status, output_format from runs
        where p_resumes and session_id = p_session and kind = 'task' and limits is not null and id <> p_run
        order by created_at desc, id desc limit 1) as resumed where status <> 'completed'),
      v_output),
    deadline_at = clock_timestamp() + make_interval(secs => (v_limits ->> 'deadlineMs')::bigint / 1000.0)
    where id = p_run;
end $function$;

CREATE OR REPLACE FUNCTION public.baton_lock_claimed_run(p_run uuid, p_epoch bigint, p_claim uuid)
 RETURNS runs
 LANGUAGE plpgsql
AS $function$
begin
  perform 1 from sessions where id = (select session_id from runs where id = p_run) for no key update;
  return (select run from runs as run where id = p_run and epoch = p_epoch and claim_id = p_claim for no key update);
end $function$;

CREATE OR REPLACE FUNCTION public.baton_lock_retirement(p_worker text)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  perform pg_advisory_xact_lock(1652651120, hashtext(p_worker));
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
  return baton_begin_cancel(p_session, p_run, p_parks);
end $function$;

CREATE OR REPLACE FUNCTION public.baton_mark_parts(p_session uuid, p_marks jsonb)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  if coalesce(jsonb_array_length(p_marks), 0) = 0 then return; end if;
  update sessions set view_version = view_version + 1 where id = p_session;
  update parts set
    compacted_at =
      case when (mark ->> 'pruned')::boolean then coalesce(compacted_at, clock_timestamp()) else compacted_at end,
    media_stripped_at = case when (mark ->> 'mediaStripped')::boolean
      then coalesce(media_stripped_at, clock_timestamp()) else media_stripped_at end,
    earlier_view_limits = case when (mark ->> 'viewLimitChars')::integer is distinct from view_limit and mark ? 'viewLimitChars'
      then coalesce(earlier_view_limits, '[]') || jsonb_build_object('until', clock_timestamp(), 'chars', view_limit)
      else earlier_view_limits end,
    view_limit = coalesce((mark ->> 'viewLimitChars')::integer, view_limit),
    original_tokens = coalesce(original_tokens, (mark ->> 'originalTokens')::integer)
  -- `offset 0` as in baton_take_branch.
  from (select p_session as id, mark from jsonb_array_elements(p_marks) as mark offset 0) as marked
  where session_id = marked.id and message_id = (mark ->> 'messageId')::uuid and idx = (mark ->> 'index')::integer;
end $function$;

CREATE OR REPLACE FUNCTION public.baton_may_carry_on(p_run runs, p_carry jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_limit integer := (p_carry ->> 'tenantLimit')::integer;
begin
  if p_run.required_engine > (p_carry ->> 'engine')::integer then return false; end if;
  if v_limit = 0 then return true; end if;
  return coalesce(p_run.tenant_slot <= v_limit, false)
    and not exists (select 1 from runs where tenant_id = p_run.tenant_id and throttled_at is not null);
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
        'href',
        '/v1/sessions/' || baton_public_id('ses', p_session) || '/messages?after=' || p_seq - 1 || '&limit=1')) end);
end $function$;

CREATE OR REPLACE FUNCTION public.baton_model_memory(p_model text, p_tenant text)
 RETURNS json
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_provider text := split_part(p_model, '/', 1);
  v_model text := substr(p_model, length(v_provider) + 2);
  v_pauses json;
begin
  -- Apart, so that a model without a pause costs one short query.
  if exists (select 1 from provider_pauses where model = v_model and until_at > clock_timestamp()) then
    select json_agg(json_build_object('endpoint', endpoint, 'credential', credential,
        'leftMs', ceil(extract(epoch from until_at - clock_timestamp()) * 1000))) into v_pauses
      from baton_pauses(v_model, p_tenant);
  end if;
  return json_build_object('model', p_model,
    'limits', coalesce((select json_agg(json_build_object('endpoint', endpoint, 'contextWindow', context_tokens,
        'inputLimit', input_tokens, 'prior', estimator_prior,
        'refusesTools', baton_refuses_tools(tools_refused_at))) from model_limits
      where provider = v_provider and model = v_model), '[]'),
    'adaptations', coalesce((select json_agg(json_build_object('endpoint', endpoint, 'kind', kind, 'detail', detail)
        order by learned_at, kind, detail) from model_adaptations
      where tenant_id = p_tenant and provider = v_provider and model = v_model
        and baton_is_adapted(kind, learned_at)), '[]'),
    'pauses', coalesce(v_pauses, '[]'));
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
    answer = case when (p_move ->> 'forgetsAnswer')::boolean then null else answer end,
    question = coalesce(p_move -> 'question', question),
    content = case when p_move -> 'output' is null then content
      else content || jsonb_build_object('output', p_move -> 'output') end,
    truncated = truncated or p_move -> 'originalTokens' is not null,
    original_tokens = coalesce((p_move ->> 'originalTokens')::integer, original_tokens),
    started_at = case
      when v_to = 'running' then clock_timestamp()
      when v_to = 'pending' then null
      when p_move ->> 'ranMs' is not null
        then clock_timestamp() - make_interval(secs => (p_move ->> 'ranMs')::double precision / 1000)
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
      where session_id = p_session and message_id = v_message and idx = v_idx;
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
  v_answers jsonb := '[]';
  v_events jsonb := '[]';
begin
  if v_run.id is null then return null; end if;
  for v_no in 1 .. jsonb_array_length(p_moves) loop
    v_move := p_moves -> (v_no - 1);
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

CREATE OR REPLACE FUNCTION public.baton_note_session_words()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    begin
      insert into session_words (session_id, tenant_id, created_at, words)
        values (new.id, new.tenant_id, new.created_at, array_to_tsvector(array(
          select new.tenant_id || ' ' || word from unnest(baton_split_words(array[new.title, new.external_key]
            || array(select value from jsonb_each_text(new.metadata)))) as word)))
        on conflict (session_id) do update set words = excluded.words;
      return null;
    end $function$;

CREATE OR REPLACE FUNCTION public.baton_open_message(p_run runs, p_message uuid, p_seq bigint, p_event_seq bigint, p_view_start bigint, p_summary bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  insert into messages (id, tenant_id, session_id, seq, role, run_id, step_no, attempt, epoch, event_seq, view_start_seq,
    summary_seq)
    values (p_message, p_run.tenant_id, p_run.session_id, p_seq, 'assistant', p_run.id, p_run.pending_no,
      p_run.attempt, p_run.epoch, p_event_seq, p_view_start, p_summary);
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

CREATE OR REPLACE FUNCTION public.baton_read_history(p_epoch text, p_lsn text)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_row history;
  v_lsn pg_lsn;
  v_identity text;
begin
  select * into v_row from history;
  if pg_is_in_recovery() then return json_build_object('epoch', v_row.epoch, 'lsn', null); end if;
  v_lsn := pg_current_wal_lsn();
  -- The control file names the timeline of its last checkpoint, which may be from before a promotion.
  v_identity := concat_ws('/', left(pg_walfile_name(v_lsn), 8), 'history'::regclass::oid,
    (select oid from pg_database where datname = current_database()));
  begin
    v_identity := concat_ws('/', v_identity, (select system_identifier from pg_control_system()));
  exception when insufficient_privilege then
    -- Some hosts refuse it. The rest tells all but a copy of the whole disk to another server.
    null;
  end;
  -- There is no row at first, and after a restore that emptied the tables before.
  if v_row.identity = v_identity and not coalesce(p_epoch = v_row.epoch and v_lsn < p_lsn::pg_lsn, false) then
    return json_build_object('epoch', v_row.epoch, 'lsn', v_lsn);
  end if;
  insert into history (epoch, identity) values ('', '') on conflict do nothing;
  select * into v_row from history for update;
  if v_row.identity <> v_identity or coalesce(p_epoch = v_row.epoch and v_lsn < p_lsn::pg_lsn, false) then
    update history set epoch = left(gen_random_uuid()::text, 8), identity = v_identity returning * into v_row;
  end if;
  return json_build_object('epoch', v_row.epoch, 'lsn', v_lsn);
end $function$;

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
      - (select count(*) from runs where tenant_id = p_tenant and is_claimed and tenant_slot is not null)
      - (select count(*) from runs
          where tenant_id = p_tenant and (started_at is not null or pending_dispatch > 1)
            and due_at > (select clock_timestamp() - interval '10 seconds') and pending_at <= clock_timestamp()));
  end if;
  -- In an array, so that it is chosen once: a plan may ask a subquery with a limit again for every run, and then
  -- "skip locked" finds others each time.
  with admitted as (
    update runs set throttled_at = null, pending_dispatch = pending_dispatch + 1, pending_at = clock_timestamp(),
      next_check_at = null
      where id = any(array(select id from runs where tenant_id = p_tenant and throttled_at is not null
        order by created_at, id limit greatest(v_room, 0) for no key update skip locked))
      returning id, created_at, pending_kind, pending_no, pending_dispatch
  )
  select coalesce(jsonb_agg(jsonb_build_object('runId', id, 'kind', pending_kind, 'no', pending_no,
      'dispatch', pending_dispatch) order by created_at, id), '[]') into v_jobs from admitted;
  return v_jobs;
end $function$;

CREATE OR REPLACE FUNCTION public.baton_requeue_run(p_run uuid, p_is_recovery boolean)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
declare
  v_run runs;
  v_epoch bigint;
begin
  update sessions set epoch = epoch + 1 where id = (select session_id from runs where id = p_run)
    returning epoch into v_epoch;
  update runs set
    status = case when status = 'running' then 'queued' else status end,
    epoch = v_epoch,
    claim_id = null,
    lease_owner = null,
    lease_expires_at = null,
    pending_dispatch = pending_dispatch + 1,
    pending_at = clock_timestamp(),
    next_check_at = null,
    resume_count = resume_count + case when p_is_recovery then 1 else 0 end
    where id = p_run and pending_kind is not null returning * into v_run;
  if not found then return null; end if;
  return baton_pending_job(v_run);
end $function$;

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
    if exists (select 1 from messages where id = p_message and session_id = v_run.session_id) then
      select page.view, page.next_after into v_view, v_next_after from baton_view(v_run.session_id) as page;
    else
      if p_broken is not null then
        perform baton_apply_response(v_run.session_id, p_broken -> 'response');
        perform baton_append_events(v_run.session_id, p_run, p_broken -> 'events');
      end if;
      select begun.view, begun.next_after into v_view, v_next_after from baton_begin_step(v_run, p_message, 0) as begun;
    end if;
  end if;
  return json_build_object('sessionId', v_run.session_id, 'view', v_view, 'viewNextAfter', v_next_after,
    'messageSeq', (select seq from messages where id = p_message and session_id = v_run.session_id),
    'eventSeq', (select event_seq from sessions where id = v_run.session_id));
end $function$;

CREATE OR REPLACE FUNCTION public.baton_resume_run(p_session uuid, p_run uuid)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
begin
  update runs set status = 'running', pending_kind = 'step', pending_dispatch = pending_dispatch + 1,
    pending_at = clock_timestamp(), next_check_at = null, approval_expires_at = null, is_delegating = false
    where id = p_run and status = 'requires_action';
  if not found then return null; end if;
  update sessions set status = 'busy',
    words_due_at = coalesce(words_due_at, clock_timestamp() + interval '30 seconds') where id = p_session;
  return baton_job_of(p_run);
end $function$;

CREATE OR REPLACE FUNCTION public.baton_retry_run(p_run uuid)
 RETURNS jsonb
 LANGUAGE plpgsql
AS $function$
declare
  v_run runs;
begin
  update runs set
    status = 'queued',
    error = null,
    pending_kind = 'step',
    pending_no = pending_no + 1,
    pending_dispatch = pending_dispatch + 1,
    pending_at = clock_timestamp(),
    next_check_at = null,
    attempt = 1,
    resume_count = 0,
    cancel_requested_at = null,
    cancel_inbox_seq = null,
    deadline_at = deadline_at + (clock_timestamp() - finished_at),
    finished_at = null
    where id = p_run returning * into v_run;
  -- As for any new run: no pending compaction, and none tried yet.
  update sessions set status = 'busy', active_run_id = p_run,
    words_due_at = coalesce(words_due_at, clock_timestamp() + interval '30 seconds'),
    context_state = context_state - 'pending' - 'compactionsSinceStep'
    where id = v_run.session_id;
  return jsonb_build_object('job', baton_pending_job(v_run), 'eventSeq',
    baton_append_events(v_run.session_id, p_run, jsonb_build_array(jsonb_build_object(
      'type', 'run:queued', 'data', jsonb_build_object('runId', baton_public_id('run', p_run))))));
end $function$;

CREATE OR REPLACE FUNCTION public.baton_split_words(p_texts text[])
 RETURNS text[]
 LANGUAGE sql
 IMMUTABLE
AS $function$
      select coalesce(array_agg(distinct lower(left(word, 200))), '{}')
      from unnest(p_texts) as text, regexp_split_to_table(text, '[-!-/:-@[-`{-~[:space:]]+') as word
      where word <> ''
    $function$;

CREATE OR REPLACE FUNCTION public.baton_start_run(p_session uuid, p_run uuid, p_kind text, p_traceparent text, p_pending text DEFAULT 'step'::text, p_limits jsonb DEFAULT '{}'::jsonb, p_lowered jsonb DEFAULT '{}'::jsonb, p_resumes boolean DEFAULT false)
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
      coalesce(v_session.requested_resume -> 'lowered', '{}') || p_lowered, p_resumes or v_session.requested_resume is not null);
  end if;
  if v_pending <> p_pending then perform baton_take_requested(p_session); end if;
  -- A task run drops the order of a compaction or prune that was cancelled before it began.
  update sessions set status = 'busy', active_run_id = p_run,
    words_due_at = coalesce(words_due_at, clock_timestamp() + interval '30 seconds'),
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

CREATE OR REPLACE FUNCTION public.baton_step_started(p_run runs, p_message uuid)
 RETURNS jsonb
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return jsonb_build_object('type', 'step:started', 'data', jsonb_build_object(
    'runId', baton_public_id('run', p_run.id), 'step', p_run.pending_no, 'attempt', p_run.attempt,
    'messageId', baton_public_id('msg', p_message))
      || jsonb_strip_nulls(jsonb_build_object('finalAnswerFor', p_run.final_answer_for, 'workerId', p_run.lease_owner,
        'waitedMs', greatest(0, round(extract(epoch from clock_timestamp() - p_run.pending_at) * 1000)))));
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
    join parts p on p.session_id = m.session_id and p.message_id = m.id and p.type = 'tool'
    where r.id = p_run and p.started_at is not null and p.finished_at >= r.cancel_requested_at
      and not coalesce(p.answer -> 'given' ->> 'kind' in ('output', 'content'), false));
end $function$;

CREATE OR REPLACE FUNCTION public.baton_stop_children(p_run uuid, p_all boolean)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  v_runs uuid[] := array[p_run];
begin
  if p_all then
    with recursive callers (run_id) as (
      select p_run
      union
      select c.run_id from children c join callers on c.parent_run_id = callers.run_id
        where c.state in ('ended', 'delivered', 'dropped'))
    select array_agg(run_id) into v_runs from callers;
  end if;
  with working as materialized (
    select parent_session_id, message_id, idx from children
    where parent_run_id = any (v_runs) and state in ('held', 'asked', 'running')
      and not stop_requested and (p_all or mode = 'wait')
    order by parent_session_id, message_id, idx for no key update)
  update children c set
    state = case c.state when 'held' then 'dropped' when 'asked' then 'ended' else c.state end,
    result = case when c.state = 'asked' then
      jsonb_build_object('status', 'cancelled', 'steps', 0, 'tokens', 0, 'costUsd', 0) else c.result end,
    stop_requested = true,
    due_at = case when c.state <> 'held' then clock_timestamp() end
    from working where c.parent_session_id = working.parent_session_id and c.message_id = working.message_id
      and c.idx = working.idx;
  if not p_all then return; end if;
  with recursive below (run_id) as (
    select run_id from children where parent_run_id = any (v_runs) and state = 'running'
    union
    select c.run_id from children c join below on c.parent_run_id = below.run_id where c.state = 'running'
  ), working as materialized (
    select parent_session_id, message_id, idx from children join below on children.parent_run_id = below.run_id
    where state = 'running' and not stop_requested limit 1000 for no key update of children skip locked)
  update children c set stop_requested = true, due_at = clock_timestamp()
    from working where c.parent_session_id = working.parent_session_id and c.message_id = working.message_id
      and c.idx = working.idx;
end $function$;

CREATE OR REPLACE FUNCTION public.baton_take_branch(p_run runs, p_finish jsonb)
 RETURNS json
 LANGUAGE plpgsql
AS $function$
declare
  v_session uuid := p_run.session_id;
  v_requested text;
  v_waiting boolean;
  v_takes boolean;
  v_carry jsonb;
  v_claimed json;
  v_branch_name text;
  v_branch jsonb;
  v_kind text;
  v_written record;
  v_jobs jsonb := '[]';
  v_follow_up jsonb;
  v_last bigint;
begin
  select requested_maintenance, exists (select 1 from inbox
    where session_id = v_session and consumed_message_seq is null and run_id is not distinct from p_run.id)
    into v_requested, v_waiting from sessions where id = v_session;
  v_branch_name := case
    when p_run.cancel_requested_at is not null then 'ifCancelled'
    when v_waiting then 'ifMessagesWait'
    else 'otherwise' end;
  v_branch := p_finish -> 'next' -> v_branch_name;
  v_kind := v_branch ->> 'kind';
  if jsonb_array_length(v_branch -> 'calls') > 0 then
    update parts set
      state = call ->> 'state',
      required_action = call ->> 'requiredAction',
      answer = null,
      content = case when v_kind in ('wait', 'settle') then content
        else content || jsonb_build_object('output', call -> 'output') end,
      finished_at = case when v_kind not in ('wait', 'settle') then clock_timestamp() end
      -- `offset 0` hides from the planner that all are of one session: it would read all parts of that, however many.
      from (select v_session as id, call from jsonb_array_elements(v_branch -> 'calls') as e (call) offset 0) as changed
      where session_id = changed.id and message_id = (call ->> 'messageId')::uuid
        and idx = (call ->> 'index')::integer;
  end if;
  v_takes := v_kind in ('continue', 'postpone') and v_branch ->> 'pendingKind' = 'step' and v_requested is not null
    and p_run.final_answer_for is null;
  if v_takes then v_branch := v_branch || jsonb_build_object('pendingKind', v_requested); end if;
  if v_kind = 'continue' and v_branch ->> 'pendingKind' = 'step' and p_finish -> 'carryOn' is not null
    and baton_may_carry_on(p_run, p_finish -> 'carryOn') then v_carry := p_finish -> 'carryOn'; end if;
  v_written := baton_write_branch(p_run.id, v_branch, p_finish, v_carry, v_waiting);
  if v_kind = 'wait' then perform baton_ask_children(v_written.run, v_branch -> 'calls'); end if;
  if v_takes then perform baton_take_requested(v_session); end if;
  v_last := v_written.last_event_seq;
  if v_kind = 'end' then
    v_follow_up := baton_follow_run_end(p_run.id, (p_finish ->> 'nextRunId')::uuid, p_finish ->> 'maintenanceAtEnd');
    v_last := coalesce((v_follow_up ->> 'eventSeq')::bigint, v_last);
    if v_follow_up is not null then v_jobs := jsonb_build_array(v_follow_up -> 'job'); end if;
  elsif v_kind <> 'wait' then
    v_jobs := jsonb_build_array(baton_pending_job(v_written.run));
  end if;
  if v_carry is not null then
    v_claimed := baton_carry_on(v_written.run, v_carry, v_written.opened_seq, v_last);
    v_last := (v_claimed ->> 'eventSeq')::bigint;
  end if;
  return json_build_object('branch', v_branch_name, 'eventSeq', v_last, 'jobs', v_jobs, 'claimed', v_claimed);
end $function$;

CREATE OR REPLACE FUNCTION public.baton_take_requested(p_session uuid)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
  update sessions set
    requested_maintenance = null,
    context_state = context_state || '{"pending": {"reason": "manual", "force": true, "stripMedia": false}}'
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
        where tenant_id = p_run.tenant_id and tenant_slot = slot and is_claimed);
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
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_first bigint;
  v_summary bigint;
begin
  select greatest(view_start_seq, p_after + 1), case when p_after = 0 then summary_message_seq end
    into v_first, v_summary from sessions where id = p_session;
  select coalesce(json_agg(json_build_object(
      'id', m.id, 'seq', m.seq, 'role', m.role, 'model', m.model, 'parts', p.parts)
      order by m.is_summary desc, m.seq), '[]'),
    case when count(*) filter (where not m.is_summary) = 2000 then max(m.seq) filter (where not m.is_summary) end
    into view, next_after
  from (
    (select id, seq, role, model, is_summary from messages where session_id = p_session and seq = v_summary)
    union all
    (select id, seq, role, model, is_summary from messages
      where session_id = p_session and seq >= v_first and not is_summary
        and not superseded and reverted_no is null and (role = 'user' or finish_reason is not null)
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
    from parts where parts.session_id = p_session and parts.message_id = m.id
  ) p;
end $function$;

CREATE OR REPLACE FUNCTION public.baton_write_branch(p_run uuid, p_branch jsonb, p_finish jsonb, p_carry jsonb DEFAULT NULL::jsonb, p_waiting boolean DEFAULT false, OUT run runs, OUT last_event_seq bigint, OUT opened_seq bigint)
 RETURNS record
 LANGUAGE plpgsql
AS $function$
declare
  v_kind text := p_branch ->> 'kind';
  v_events jsonb := (p_finish -> 'events') || (p_branch -> 'events');
  v_usage jsonb := p_finish -> 'usage';
  -- Null where the price of the model is unknown; the sum is unknown from then on.
  v_cost double precision := (p_finish ->> 'costUsd')::double precision;
  v_claim uuid := (p_carry ->> 'claimId')::uuid;
  v_lease interval := make_interval(secs => (p_carry ->> 'leaseMs')::integer / 1000.0);
  v_opens boolean;
  v_delegates boolean := coalesce((p_branch ->> 'isDelegating')::boolean, false);
  v_parent uuid;
  v_view_start bigint;
  v_summary bigint;
begin
  if p_branch ->> 'status' = 'cancelled' then
    v_events := v_events || jsonb_build_object('type', 'run:cancelled', 'data', jsonb_build_object(
      'runId', baton_public_id('run', p_run), 'stillRan', baton_still_ran(p_run)));
  end if;

  update runs set
    status = case v_kind when 'end' then p_branch ->> 'status' when 'wait' then 'requires_action' else status end,
    status_reason = coalesce(p_branch ->> 'reason', status_reason),
    error = coalesce(p_branch -> 'error', error),
    pending_kind = p_branch ->> 'pendingKind',
    -- BullMQ ignores a job id that it still knows, and a run comes back to the same step after a compaction: a new id.
    pending_dispatch = pending_dispatch + 1,
    attempt = case
      when v_kind = 'retry' then attempt + 1
      when v_kind = 'wait' then attempt
      when (p_branch ->> 'pendingNo')::integer = pending_no then attempt
      else 1 end,
    pending_no = coalesce((p_branch ->> 'pendingNo')::integer, pending_no),
    pending_at = clock_timestamp() + make_interval(secs => coalesce((p_branch ->> 'delayMs')::integer, 0) / 1000.0),
    next_check_at = null,
    throttled_at = null,
    -- The run does not wait beyond its deadline.
    approval_expires_at = case when v_kind = 'wait' then least(
      clock_timestamp() + make_interval(secs => (p_branch ->> 'waitMs')::bigint / 1000.0), deadline_at) end,
    is_delegating = v_delegates,
    epoch = epoch + 1,
    claim_id = v_claim,
    lease_owner = case when v_claim is not null then lease_owner end,
    -- Heartbeats renew the lease. Renewed by each step, it would make each touch the indexes.
    lease_expires_at = case
      when v_claim is null then null
      when lease_expires_at > clock_timestamp() + v_lease / 2 then lease_expires_at
      else clock_timestamp() + v_lease end,
    resume_count = case when v_kind = 'retry' then resume_count else 0 end,
    step_count = step_count + coalesce((p_finish ->> 'steps')::integer, 0),
    input_tokens = input_tokens + (v_usage ->> 'inputTokens')::bigint,
    output_tokens = output_tokens + (v_usage ->> 'outputTokens')::bigint,
    reasoning_tokens = reasoning_tokens + (v_usage ->> 'reasoningTokens')::bigint,
    cache_read_tokens = cache_read_tokens + (v_usage ->> 'cacheReadTokens')::bigint,
    cache_write_tokens = cache_write_tokens + (v_usage ->> 'cacheWriteTokens')::bigint,
    cost_usd = cost_usd + v_cost,
    -- The trace of the next attempt links to this one.
    attempt_traceparent = case when v_kind = 'retry' then attempt_traceparent end,
    final_answer_for = case when v_kind = 'final_answer' then p_branch ->> 'limit' else final_answer_for end,
    final_answer_until = case when v_kind = 'final_answer'
      then clock_timestamp() + make_interval(secs => (p_branch ->> 'withinMs')::integer / 1000.0)
      else final_answer_until end,
    model_position = coalesce((p_branch ->> 'modelPosition')::integer, model_position),
    output_state = coalesce(p_branch -> 'outputState', output_state),
    output = coalesce(p_branch -> 'result', output),
    finished_at = case when v_kind = 'end' then clock_timestamp() end
    where id = p_run returning * into run;
  -- The time of the next attempt is by the clock of Postgres, not by that of the worker.
  if v_kind in ('retry', 'postpone') then
    v_events := v_events || jsonb_build_object('type', 'step:retrying', 'data',
      (p_branch -> 'retrying') || jsonb_build_object('nextAttemptAt',
        to_char(run.pending_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')));
  end if;
  v_opens := v_claim is not null and not p_waiting and not baton_is_used_up(run);
  if v_opens then v_events := v_events || baton_step_started(run, (p_carry ->> 'messageId')::uuid); end if;
  -- One update for everything that the end of a step changes of its session: the row is wide.
  update sessions set
    epoch = epoch + 1,
    message_seq = message_seq + v_opens::integer,
    event_seq = event_seq + jsonb_array_length(v_events),
    updated_at = clock_timestamp(),
    context_state = coalesce(p_finish -> 'contextState', context_state),
    status = case v_kind when 'end' then 'idle' when 'wait' then
      case when v_delegates then 'busy' else 'requires_action' end else status end,
    active_run_id = case when v_kind = 'end' then null else active_run_id end,
    words_due_at = case when v_kind in ('end', 'wait') then clock_timestamp() else words_due_at end,
    input_tokens = input_tokens + (v_usage ->> 'inputTokens')::bigint,
    output_tokens = output_tokens + (v_usage ->> 'outputTokens')::bigint,
    reasoning_tokens = reasoning_tokens + (v_usage ->> 'reasoningTokens')::bigint,
    cache_read_tokens = cache_read_tokens + (v_usage ->> 'cacheReadTokens')::bigint,
    cache_write_tokens = cache_write_tokens + (v_usage ->> 'cacheWriteTokens')::bigint,
    cost_usd = cost_usd + v_cost,
    step_count = step_count + coalesce((p_finish ->> 'steps')::integer, 0)
    where id = run.session_id
    returning event_seq, case when v_opens then message_seq end, view_start_seq, summary_message_seq,
      parent_session_id
      into last_event_seq, opened_seq, v_view_start, v_summary, v_parent;
  if v_opens then
    perform baton_open_message(run, (p_carry ->> 'messageId')::uuid, opened_seq, last_event_seq, v_view_start,
      v_summary);
  end if;
  perform baton_insert_events(run.session_id, run.tenant_id, p_run, last_event_seq, v_events);
  if v_kind not in ('end', 'wait') then return; end if;
  if not v_delegates then perform baton_write_deliveries(run); end if;
  if v_kind = 'end' and run.children_count > 0 then
    perform baton_stop_children(p_run, run.status in ('cancelled', 'failed'));
  end if;
  if v_parent is null or run.kind <> 'task' then return; end if;
  if v_kind = 'end' then
    perform baton_end_child(run);
  elsif not v_delegates then
    update children set due_at = clock_timestamp(), asks = (select count(*) from jsonb_array_elements(p_branch -> 'calls') as call
        where call ->> 'requiredAction' <> 'child')
      where run_id = p_run and state = 'running';
  end if;
end $function$;

CREATE OR REPLACE FUNCTION public.baton_write_deliveries(p_run runs)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
  v_type text := 'run:' || replace(p_run.status, '_', '-');
  v_session sessions;
  v_data json;
  v_target record;
  v_id uuid;
begin
  if p_run.kind <> 'task' then return; end if;
  select * into v_session from sessions where id = p_run.session_id;
  for v_target in
    select w.id as webhook_id, null::text as url, null::text as secret, w.id::text as endpoint from webhooks w
      where w.tenant_id = p_run.tenant_id and w.disabled_for is null and v_type = any (w.events)
        and (w.agent_name is null or w.agent_name = v_session.agent_name)
    union all
    select distinct null::uuid, webhook ->> 'url', webhook ->> 'secret', p_run.tenant_id || ' ' || (webhook ->> 'origin')
      from inbox where run_id = p_run.id and webhook is not null
  loop
    v_data := coalesce(v_data, baton_delivery_data(p_run, v_session));
    v_id := gen_random_uuid();
    insert into webhook_deliveries (id, tenant_id, webhook_id, url, secret, endpoint, session_id, run_id, type, body)
      values (v_id, p_run.tenant_id, v_target.webhook_id, v_target.url, v_target.secret, v_target.endpoint,
        p_run.session_id, p_run.id, v_type, baton_delivery_body(v_id, v_type, v_data));
  end loop;
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
  if not baton_apply_response(v_run.session_id, p_response, v_may_start, p_only_open => true) then
    return jsonb_build_object(
      'mayStart', exists (
        select 1 from parts where session_id = v_run.session_id and message_id = v_message and state = 'running'),
      'eventSeq', (select event_seq from sessions where id = v_run.session_id));
  end if;
  return jsonb_build_object('mayStart', v_may_start,
    'eventSeq', baton_append_events(v_run.session_id, p_run, p_events));
end $function$;

CREATE OR REPLACE FUNCTION public.baton_write_steps(p_writes jsonb)
 RETURNS json
 LANGUAGE plpgsql
 SET lock_timeout TO '50ms'
AS $function$
declare
  v_answers json[] := array_fill(null::json, array[jsonb_array_length(p_writes)]);
  v_write jsonb;
  v_at integer;
begin
  for v_write, v_at in
    select e.write, e.at from jsonb_array_elements(p_writes) with ordinality as e (write, at)
    order by e.write ->> 'runId'
  loop
    v_answers[v_at] := case v_write ->> 'kind'
      when 'finish' then baton_finish_step((v_write ->> 'runId')::uuid, (v_write ->> 'epoch')::bigint,
        (v_write ->> 'claimId')::uuid, v_write -> 'finish', '{}')
      else baton_write_response((v_write ->> 'runId')::uuid, (v_write ->> 'epoch')::bigint,
        (v_write ->> 'claimId')::uuid, v_write -> 'response', v_write -> 'events')::json end;
  end loop;
  return array_to_json(v_answers);
end $function$;

CREATE OR REPLACE FUNCTION public.baton_written(p_value jsonb)
 RETURNS json
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
begin
  return case when jsonb_typeof(p_value -> '@json') = 'string' then (p_value ->> '@json')::json else p_value::json end;
end $function$;

CREATE OR REPLACE FUNCTION public.runs_refuse_transition()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
    begin
      if new.status = any (case old.status
        when 'queued' then array['running', 'cancelling', 'cancelled', 'failed', 'incomplete']
        when 'running' then array['queued', 'requires_action', 'cancelling', 'cancelled', 'completed', 'failed', 'incomplete']
        when 'requires_action' then array['running', 'cancelled']
        when 'cancelling' then array['cancelled', 'completed', 'failed']
        when 'failed' then array['queued']
        else array[]::text[] end) then return null; end if;
      raise exception 'a run cannot go from % to %', old.status, new.status;
    end $function$;

CREATE TRIGGER baton_count_blobs_delete AFTER DELETE ON public.blobs REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION baton_count_blobs_delete();
CREATE TRIGGER baton_count_blobs_insert AFTER INSERT ON public.blobs REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION baton_count_blobs_insert();
CREATE TRIGGER baton_count_inbox_delete AFTER DELETE ON public.inbox REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION baton_count_inbox_delete();
CREATE TRIGGER baton_count_inbox_insert AFTER INSERT ON public.inbox REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION baton_count_inbox_insert();
CREATE TRIGGER baton_count_inbox_update AFTER UPDATE ON public.inbox FOR EACH ROW WHEN ((old.content_bytes IS DISTINCT FROM new.content_bytes)) EXECUTE FUNCTION baton_count_changed();
CREATE TRIGGER baton_count_parts_delete AFTER DELETE ON public.parts REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION baton_count_parts_delete();
CREATE TRIGGER baton_count_parts_insert AFTER INSERT ON public.parts REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION baton_count_parts_insert();
CREATE TRIGGER baton_count_parts_update AFTER UPDATE ON public.parts FOR EACH ROW WHEN ((old.content_bytes IS DISTINCT FROM new.content_bytes)) EXECUTE FUNCTION baton_count_changed();
CREATE TRIGGER runs_refuse_transition AFTER UPDATE OF status ON public.runs FOR EACH ROW WHEN (((new.status)::text <> (old.status)::text)) EXECUTE FUNCTION runs_refuse_transition();
CREATE TRIGGER baton_count_sessions_delete AFTER DELETE ON public.sessions REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION baton_count_sessions_delete();
CREATE TRIGGER baton_count_sessions_insert AFTER INSERT ON public.sessions REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION baton_count_sessions_insert();
CREATE TRIGGER baton_keep_session_agent AFTER UPDATE OF agent_snapshot ON public.sessions FOR EACH ROW WHEN (((old.message_seq > 0) AND (old.agent_snapshot IS DISTINCT FROM new.agent_snapshot))) EXECUTE FUNCTION baton_keep_session_agent();
CREATE TRIGGER baton_note_changed_session_words AFTER UPDATE OF title, external_key, metadata ON public.sessions FOR EACH ROW WHEN (((old.title IS DISTINCT FROM new.title) OR (old.external_key IS DISTINCT FROM new.external_key) OR (old.metadata IS DISTINCT FROM new.metadata))) EXECUTE FUNCTION baton_note_session_words();
CREATE TRIGGER baton_note_session_words AFTER INSERT ON public.sessions FOR EACH ROW EXECUTE FUNCTION baton_note_session_words();
