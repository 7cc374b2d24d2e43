// The rows of the migrated schema. Written by "npm run schema:dump"; never change it here. migrations/ explains the columns.
import type { ColumnType, Generated } from 'kysely';
import type { DefaultJson, DefaultTime, Json, Time } from './table-columns.ts';

export type Tables = {
  api_keys: {
    id: string;
    tenant_id: Generated<string>;
    name: string;
    shown: string;
    key_sha256: Buffer;
    scopes: ('read' | 'write' | 'admin' | 'operator')[];
    created_at: DefaultTime;
    last_used_at: Time | null;
    expires_at: Time | null;
    revoked_at: Time | null;
  };
  audit_log: {
    seq: Generated<number>;
    tenant_id: Generated<string>;
    key_id: string | null;
    action: string;
    target: string;
    created_at: DefaultTime;
  };
  blob_refs: {
    blob_id: string;
    session_id: string;
    tenant_id: Generated<string>;
  };
  blobs: {
    id: string;
    tenant_id: Generated<string>;
    sha256: Buffer;
    media_type: string;
    size_bytes: number;
    bytes: Buffer | null;
    url: string | null;
    created_at: DefaultTime;
  };
  children: {
    parent_session_id: string;
    message_id: string;
    idx: number;
    tenant_id: Generated<string>;
    parent_run_id: string;
    tool_name: string;
    agent_name: string;
    mode: 'wait' | 'background';
    limits: Json<Record<string, unknown>>;
    max_parallel: number;
    session_id: string;
    run_id: string;
    state: 'held' | 'asked' | 'running' | 'ended' | 'delivered' | 'dropped';
    stop_requested: Generated<boolean>;
    is_told: Generated<boolean>;
    asks: Generated<number>;
    asks_told: Generated<number>;
    result: Json<Record<string, unknown>> | null;
    due_at: Time | null;
    created_at: DefaultTime;
    ended_at: Time | null;
  };
  compactions: {
    id: string;
    tenant_id: Generated<string>;
    session_id: string;
    run_id: string | null;
    round: number;
    strategy: string;
    reason: string;
    state: Generated<'running' | 'completed' | 'rejected' | 'failed'>;
    from_seq: number;
    upto_seq: number;
    summary_message_seq: number | null;
    tokens_before: number;
    tokens_after: number | null;
    attempts: Generated<number>;
    cost_usd: Generated<number | null>;
    usage: Json<Record<string, unknown>> | null;
    error: Json<Record<string, unknown>> | null;
    started_at: DefaultTime;
    finished_at: Time | null;
  };
  console_logins: {
    id: string;
    key_id: string;
    cookie_sha256: Buffer;
    page_sha256: Buffer;
    board_sha256: Buffer;
    created_at: DefaultTime;
    expires_at: Time;
  };
  dead_workers: {
    id: string;
    died_at: DefaultTime;
  };
  deleted_usage: {
    tenant_id: string;
    day: Time;
    tokens: number;
    cost_usd: number;
  };
  delivery_cursors: {
    tenant_id: string;
    after_endpoint: string;
  };
  events: {
    session_id: string;
    seq: number;
    tenant_id: Generated<string>;
    run_id: string | null;
    type: string;
    data: Json<Record<string, unknown>>;
    data_bytes: ColumnType<number, never, never>;
    created_at: DefaultTime;
  };
  history: {
    is_only: Generated<boolean>;
    epoch: string;
    identity: string;
  };
  idempotency_keys: {
    tenant_id: Generated<string>;
    route: string;
    key: string;
    request_sha256: Buffer;
    response_status: number;
    response_body: Json<Record<string, unknown>>;
    created_at: DefaultTime;
    expires_at: Time;
  };
  inbox: {
    session_id: string;
    seq: number;
    tenant_id: Generated<string>;
    id: string;
    delivery: Generated<'steer' | 'followup' | 'interrupt'>;
    origin: Generated<'user' | 'system'>;
    sent_by: 'schedule' | 'hook' | null;
    content: Json<unknown[]>;
    content_bytes: ColumnType<number, never, never>;
    limits: DefaultJson<unknown>;
    lowered: DefaultJson<unknown>;
    webhook: Json<unknown> | null;
    output: Json<unknown> | null;
    run_id: string | null;
    traceparent: string | null;
    enqueued_at: DefaultTime;
    consumed_message_seq: number | null;
  };
  message_words: {
    session_id: string;
    seq: number;
    tenant_id: string;
    created_at: Time;
    words: string;
  };
  messages: {
    id: string;
    tenant_id: Generated<string>;
    session_id: string;
    seq: number;
    role: 'user' | 'assistant';
    run_id: string | null;
    step_no: number | null;
    attempt: number | null;
    epoch: number | null;
    event_seq: number | null;
    view_start_seq: number | null;
    summary_seq: number | null;
    request: Json<Record<string, unknown>> | null;
    provider_response: Json<Record<string, unknown>> | null;
    model: string | null;
    finish_reason: string | null;
    is_summary: Generated<boolean>;
    superseded: Generated<boolean>;
    reverted_no: number | null;
    usage: Json<Record<string, unknown>> | null;
    error: Json<Record<string, unknown>> | null;
    metadata: DefaultJson<Record<string, unknown>>;
    created_at: DefaultTime;
    finished_at: Time | null;
  };
  migration_texts: {
    name: string;
    checksum: string;
  };
  model_adaptations: {
    tenant_id: string;
    provider: string;
    endpoint: string;
    model: string;
    kind: string;
    detail: string;
    learned_at: DefaultTime;
  };
  model_limits: {
    provider: string;
    endpoint: string;
    model: string;
    context_tokens: number | null;
    input_tokens: number | null;
    estimator_prior: number | null;
    tools_refused_at: Time | null;
  };
  part_chunks: {
    session_id: string;
    message_id: string;
    char_offset: number;
    part_idx: number;
    type: 'text' | 'reasoning';
    chunk: string;
  };
  parts: {
    session_id: string;
    message_id: string;
    idx: number;
    tenant_id: Generated<string>;
    type: 'text' | 'reasoning' | 'tool' | 'file' | 'source' | 'step-start' | 'compaction';
    content: Json<Record<string, unknown>>;
    tool_call_id: string | null;
    tool_name: string | null;
    state:
      | 'pending'
      | 'awaiting_approval'
      | 'awaiting_output'
      | 'running'
      | 'completed'
      | 'error'
      | 'denied'
      | 'unknown'
      | null;
    required_action: 'approval' | 'output' | 'unknown_outcome' | 'input' | 'child' | null;
    answer: Json<Record<string, unknown>> | null;
    started_at: Time | null;
    finished_at: Time | null;
    truncated: Generated<boolean>;
    compacted_at: Time | null;
    view_limit: number | null;
    earlier_view_limits: Json<unknown> | null;
    media_stripped_at: Time | null;
    original_tokens: number | null;
    outside_work: Json<unknown> | null;
    question: Json<Record<string, unknown>> | null;
    content_bytes: ColumnType<number, never, never>;
  };
  provider_pauses: {
    model: string;
    tenant_id: string;
    endpoint: string;
    credential: string;
    session_id: string;
    told_at: Time;
    until_at: Time;
    agreed_until_at: Time | null;
  };
  runs: {
    id: string;
    tenant_id: Generated<string>;
    session_id: string;
    kind: Generated<'task' | 'maintenance'>;
    status: ColumnType<
      'queued' | 'running' | 'requires_action' | 'cancelling' | 'completed' | 'failed' | 'cancelled' | 'incomplete',
      | 'queued'
      | 'running'
      | 'requires_action'
      | 'cancelling'
      | 'completed'
      | 'failed'
      | 'cancelled'
      | 'incomplete'
      | undefined,
      never
    >;
    status_reason: string | null;
    lease_owner: string | null;
    lease_expires_at: Time | null;
    pending_kind: 'step' | 'compaction' | 'prune' | null;
    next_check_at: Time | null;
    found_taken: Generated<boolean>;
    tenant_slot: number | null;
    throttled_at: Time | null;
    attempt: Generated<number>;
    resume_count: Generated<number>;
    limits: Json<Record<string, unknown>> | null;
    model_position: Generated<number>;
    output_format: Json<Record<string, unknown>> | null;
    output_state: DefaultJson<unknown>;
    output: Json<{ value: unknown }> | null;
    max_steps: number | null;
    start_inbox_seq: Generated<number>;
    cancel_inbox_seq: number | null;
    cancel_requested_at: Time | null;
    approval_expires_at: Time | null;
    is_delegating: Generated<boolean>;
    children_count: Generated<number>;
    children_steps: Generated<number>;
    children_tokens: Generated<number>;
    children_cost_usd: Generated<number | null>;
    budget_tokens: number | null;
    budget_cost_usd: number | null;
    deadline_at: Time | null;
    final_answer_for: 'max_steps' | 'budget' | 'deadline' | 'doom_loop' | null;
    final_answer_until: Time | null;
    error: Json<Record<string, unknown>> | null;
    required_engine: Generated<number>;
    traceparent: string | null;
    attempt_traceparent: string | null;
    created_at: DefaultTime;
    started_at: Time | null;
    finished_at: Time | null;
    is_claimed: ColumnType<boolean, never, never>;
    due_at: ColumnType<Date | null, never, never>;
    step_count: Generated<number>;
    input_tokens: Generated<number>;
    output_tokens: Generated<number>;
    reasoning_tokens: Generated<number>;
    cache_read_tokens: Generated<number>;
    cache_write_tokens: Generated<number>;
    cost_usd: Generated<number | null>;
    epoch: Generated<number>;
    claim_id: string | null;
    pending_no: Generated<number>;
    pending_dispatch: Generated<number>;
    pending_at: Time | null;
  };
  schedule_fires: {
    schedule_id: string;
    fire_at: Time;
    tenant_id: Generated<string>;
    result: 'fired' | 'skipped' | 'missed' | 'failed';
    session_id: string | null;
    run_id: string | null;
    error: Json<Record<string, unknown>> | null;
    created_at: DefaultTime;
  };
  schedule_looks: {
    is_only: Generated<boolean>;
    looked_at: DefaultTime;
    unwatched_until: DefaultTime;
  };
  schedules: {
    id: string;
    tenant_id: Generated<string>;
    key: string | null;
    declared_by: string | null;
    agent_name: string;
    title: string | null;
    cron: string;
    timezone: string;
    content: string;
    session_kind: 'new' | 'same';
    overlap: 'skip' | 'queue' | 'replace';
    catchup: 'none' | 'last';
    jitter_ms: number;
    paused_reason: string | null;
    next_fire_at: Time | null;
    due_at: Time | null;
    is_held: Generated<boolean>;
    session_id: string | null;
    last_run_id: string | null;
    created_at: DefaultTime;
    updated_at: DefaultTime;
  };
  session_agents: {
    session_id: string;
    upto_seq: number;
    tenant_id: string;
    snapshot: Json<Record<string, unknown>>;
  };
  session_reverts: {
    session_id: string;
    no: number;
    tenant_id: Generated<string>;
    message_id: string;
    to_seq: number;
    upto_seq: number;
    message_count: number;
    view_start_seq: number;
    summary_message_seq: number | null;
    created_at: DefaultTime;
    undone_at: Time | null;
  };
  session_words: {
    session_id: string;
    tenant_id: string;
    created_at: Time;
    words: string;
    indexed_seq: Generated<number>;
  };
  sessions: {
    id: string;
    tenant_id: Generated<string>;
    agent_name: string;
    agent_version: string;
    agent_snapshot: Json<Record<string, unknown>>;
    title: string | null;
    external_key: string | null;
    first_words: string | null;
    forked_from_session_id: string | null;
    forked_from_message_id: string | null;
    conversation_asked: Buffer | null;
    conversation_head: Buffer | null;
    agent_base: Json<Record<string, unknown>> | null;
    overrides: DefaultJson<Record<string, unknown>>;
    drifted_tools: DefaultJson<Record<string, string>>;
    metadata: DefaultJson<Record<string, string>>;
    parent_session_id: string | null;
    root_session_id: string | null;
    depth: Generated<number>;
    status: Generated<'idle' | 'busy' | 'requires_action'>;
    active_run_id: string | null;
    next_run_id: string | null;
    events_first_seq: Generated<number>;
    inbox_seq: Generated<number>;
    view_start_seq: Generated<number>;
    summary_message_seq: number | null;
    view_version: Generated<number>;
    requested_resume: Json<unknown> | null;
    requested_maintenance: 'compaction' | 'prune' | null;
    compaction_count: Generated<number>;
    compacting_since: Time | null;
    last_compaction_at: Time | null;
    expires_at: Time | null;
    words_due_at: Time | null;
    created_at: DefaultTime;
    input_tokens: Generated<number>;
    output_tokens: Generated<number>;
    reasoning_tokens: Generated<number>;
    cache_read_tokens: Generated<number>;
    cache_write_tokens: Generated<number>;
    cost_usd: Generated<number | null>;
    step_count: Generated<number>;
    context_state: DefaultJson<Record<string, unknown>>;
    epoch: Generated<number>;
    message_seq: Generated<number>;
    event_seq: Generated<number>;
    updated_at: DefaultTime;
  };
  silent_endpoints: {
    endpoint: string;
    tenant_id: string;
    silent_at: DefaultTime;
  };
  sql_functions: {
    name: string;
    checksum: string;
    signature: string;
    installed_at: DefaultTime;
    replaced_at: Time | null;
  };
  stored_bytes: {
    tenant_id: string;
    share: number;
    bytes: number;
  };
  token_secret: {
    is_only: Generated<boolean>;
    secret: Buffer;
  };
  webhook_deliveries: {
    id: string;
    tenant_id: Generated<string>;
    webhook_id: string | null;
    url: string | null;
    secret: string | null;
    endpoint: string;
    session_id: string | null;
    run_id: string | null;
    type: string;
    body: Buffer;
    state: Generated<'waiting' | 'sending' | 'delivered' | 'failed'>;
    attempts: Generated<number>;
    dispatch: Generated<number>;
    claim_id: string | null;
    claimed_by: string | null;
    due_at: DefaultTime;
    last_status: number | null;
    last_error: string | null;
    took_ms: number | null;
    created_at: DefaultTime;
    finished_at: Time | null;
  };
  webhooks: {
    id: string;
    tenant_id: Generated<string>;
    key: string | null;
    declared_by: string | null;
    url: string;
    secret: string;
    events: ('run:completed' | 'run:failed' | 'run:cancelled' | 'run:incomplete' | 'run:requires-action')[];
    agent_name: string | null;
    disabled_for: 'request' | 'gone' | 'failing' | 'undeclared' | null;
    failing_since: Time | null;
    created_at: DefaultTime;
    updated_at: DefaultTime;
  };
  workers: {
    id: string;
    kinds: ('step' | 'compaction' | 'prune' | 'delivery')[];
    engine: Generated<number>;
    lock_key: number;
    locked_at: DefaultTime;
    lost_alone: Generated<boolean>;
    seen_at: DefaultTime;
  };
  write_probe: {
    filler: string;
  };
};
