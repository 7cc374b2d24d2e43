import { type Kysely, sql } from 'kysely';

/** Sessions own everything else; a run is what works on one. */
export async function up(db: Kysely<unknown>): Promise<void> {
  // What each step changes comes last, what it changes most often at the very end, and pages have room for another version
  // of their rows: such an update stays in its page, writes no index, and its WAL has what is between the first and the last
  // byte that differ.
  // (https://www.postgresql.org/docs/current/storage-hot.html; `log_heap_update` in src/backend/access/heap/heapam.c)
  await sql`
    create table sessions (
      id uuid primary key,
      tenant_id text not null default 'default',
      agent_name text not null,
      agent_version text not null,
      agent_snapshot jsonb not null,
      title text,
      external_key text,
      conversation_asked bytea,
      conversation_turn jsonb,
      conversation_readers uuid[] not null default '{}',
      conversation_head bytea,
      agent_base jsonb,
      overrides jsonb not null default '{}',
      drifted_tools jsonb not null default '{}',
      metadata jsonb not null default '{}',
      status text not null default 'idle' check (status in ('idle', 'busy', 'requires_action')),
      active_run_id uuid,
      next_run_id uuid unique,
      events_first_seq bigint not null default 1,
      inbox_seq bigint not null default 0,
      view_start_seq bigint not null default 1,
      summary_message_seq bigint,
      view_version bigint not null default 1,
      requested_resume jsonb,
      requested_maintenance text check (requested_maintenance in ('compaction', 'prune')),
      compaction_count integer not null default 0,
      compacting_since timestamptz,
      last_compaction_at timestamptz,
      expires_at timestamptz,
      created_at timestamptz(3) not null default clock_timestamp(),
      input_tokens bigint not null default 0,
      output_tokens bigint not null default 0,
      reasoning_tokens bigint not null default 0,
      cache_read_tokens bigint not null default 0,
      cache_write_tokens bigint not null default 0,
      cost_usd double precision default 0,
      context_state jsonb not null default '{}',
      epoch bigint not null default 0,
      message_seq bigint not null default 0,
      event_seq bigint not null default 0,
      updated_at timestamptz not null default clock_timestamp()
    ) with (fillfactor = 50)`.execute(db);
  // Milliseconds in created_at: a cursor must carry the very value that the list is ordered by.
  await sql`create index sessions_listed on sessions (tenant_id, created_at desc, id desc)`.execute(db);
  await sql`create index sessions_by_status on sessions (tenant_id, status, created_at desc, id desc)`.execute(db);
  await sql`
    create index sessions_of_active_run on sessions (active_run_id) where active_run_id is not null`.execute(db);
  await sql`create index sessions_expiring on sessions (id) where expires_at is not null`.execute(db);
  // What a client of another protocol calls its conversation.
  await sql`
    create unique index sessions_by_external_key on sessions (tenant_id, external_key)
    where external_key is not null`.execute(db);
  // Where clients send their whole conversation: the hashes of what was asked last, and of that with its answer.
  await sql`
    create index sessions_by_question on sessions (tenant_id, conversation_asked)
    where conversation_asked is not null`.execute(db);
  await sql`
    create index sessions_by_conversation on sessions (tenant_id, conversation_head)
    where conversation_head is not null`.execute(db);
  await sql`create index sessions_by_metadata on sessions using gin (metadata jsonb_path_ops)`.execute(db);

  await sql`
    create table runs (
      id uuid primary key,
      tenant_id text not null default 'default',
      session_id uuid not null references sessions (id) on delete cascade,
      kind text not null default 'task' check (kind in ('task', 'maintenance')),
      status text not null default 'queued' check (status in ('queued', 'running', 'requires_action', 'cancelling', 'completed', 'failed', 'cancelled', 'incomplete')),
      status_reason text,
      epoch bigint not null default 0,
      claim_id uuid,
      lease_owner text,
      lease_expires_at timestamptz,
      pending_kind text check (pending_kind in ('step', 'compaction', 'prune')),
      pending_no integer not null default 1,
      pending_dispatch integer not null default 1,
      pending_at timestamptz,
      next_check_at timestamptz,
      found_taken boolean not null default false,
      tenant_slot integer,
      throttled_at timestamptz,
      request_upto_seq bigint not null default 0,
      attempt integer not null default 1,
      resume_count integer not null default 0,
      step_count integer not null default 0,
      limits jsonb,
      max_steps integer,
      start_inbox_seq bigint not null default 0,
      cancel_inbox_seq bigint,
      cancel_requested_at timestamptz,
      approval_expires_at timestamptz,
      budget_tokens bigint,
      budget_cost_usd double precision,
      deadline_at timestamptz,
      final_answer_for text check (final_answer_for in ('max_steps', 'budget', 'deadline', 'doom_loop')),
      final_answer_until timestamptz,
      error jsonb,
      input_tokens bigint not null default 0,
      output_tokens bigint not null default 0,
      reasoning_tokens bigint not null default 0,
      cache_read_tokens bigint not null default 0,
      cache_write_tokens bigint not null default 0,
      cost_usd double precision default 0,
      required_engine integer not null default 1,
      traceparent text,
      attempt_traceparent text,
      created_at timestamptz(3) not null default clock_timestamp(),
      started_at timestamptz,
      finished_at timestamptz
    )`.execute(db);
  await sql`
    create unique index runs_one_active_per_session on runs (session_id)
    where status in ('queued', 'running', 'requires_action', 'cancelling')`.execute(db);
  await sql`create index runs_of_session on runs (session_id, created_at desc, id desc)`.execute(db);
  await sql`create index runs_by_status on runs (tenant_id, status, created_at desc, id desc)`.execute(db);
  await sql`create index runs_listed on runs (tenant_id, created_at desc, id desc)`.execute(db);
  await sql`
    create index runs_unclaimed on runs (coalesce(next_check_at, pending_at))
    where claim_id is null and pending_kind is not null and throttled_at is null
      and status in ('queued', 'running', 'cancelling')`.execute(db);
  // A tenant's runs that are claimed hold one of its slots each: with a limit, no two of them the same.
  await sql`
    create unique index runs_tenant_slot on runs (tenant_id, tenant_slot)
    where claim_id is not null and tenant_slot is not null`.execute(db);
  await sql`
    create index runs_throttled on runs (tenant_id, created_at, id) where throttled_at is not null`.execute(db);
  await sql`
    create index runs_leased on runs (lease_expires_at)
    where claim_id is not null and status in ('running', 'cancelling')`.execute(db);
  await sql`
    create index runs_awaiting_answer on runs (approval_expires_at)
    where status = 'requires_action' and approval_expires_at is not null`.execute(db);
  await sql`
    alter table sessions add constraint sessions_active_run_fk
    foreign key (active_run_id) references runs (id) deferrable initially deferred`.execute(db);
}

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql`alter table sessions drop constraint sessions_active_run_fk`.execute(db);
  await sql`drop table runs`.execute(db);
  await sql`drop table sessions`.execute(db);
}
