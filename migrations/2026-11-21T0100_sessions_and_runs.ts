import { type Kysely, sql } from 'kysely';

/**
 * The words by which a session is found. They are a table: as a column of `sessions` each step would copy them, and a
 * scan of the newest sessions would read wide rows; each word begins with its tenant and a blank, so the index keeps a
 * tenant's words together.
 */
async function createSessionWords(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table session_words (
      session_id uuid primary key references sessions (id) on delete cascade,
      tenant_id text not null,
      created_at timestamptz(3) not null,
      words tsvector not null,
      -- The message up to which message_words has its words.
      indexed_seq bigint not null default 0
    )`.execute(db);
  await sql`create index session_words_listed on session_words (tenant_id, created_at desc, session_id desc)`.execute(
    db,
  );
  await sql`create index session_words_found on session_words using gin (words)`.execute(db);
  // Words end at blanks and ASCII punctuation, in every locale. They are cut at 200 characters, because a tsvector
  // refuses long words.
  await sql`
    create function baton_split_words(p_texts text[]) returns text[] language sql immutable as $$
      select coalesce(array_agg(distinct lower(left(word, 200))), '{}')
      from unnest(p_texts) as text, regexp_split_to_table(text, '[-!-/:-@\[-\`{-~[:space:]]+') as word
      where word <> ''
    $$`.execute(db);
  await sql`
    create function baton_note_session_words() returns trigger language plpgsql as $$
    begin
      insert into session_words (session_id, tenant_id, created_at, words)
        values (new.id, new.tenant_id, new.created_at, array_to_tsvector(array(
          select new.tenant_id || ' ' || word from unnest(baton_split_words(array[new.title, new.external_key]
            || array(select value from jsonb_each_text(new.metadata)))) as word)))
        on conflict (session_id) do update set words = excluded.words;
      return null;
    end $$`.execute(db);
  await sql`
    create trigger baton_note_session_words after insert on sessions
    for each row execute function baton_note_session_words()`.execute(db);
  await sql`
    create trigger baton_note_changed_session_words after update of title, external_key, metadata on sessions
    for each row when (old.title is distinct from new.title or old.external_key is distinct from new.external_key
      or old.metadata is distinct from new.metadata)
    execute function baton_note_session_words()`.execute(db);
}

/**
 * Earlier agents of a session, from which the request of an earlier step is recomputed. Each was in use up to a message.
 * An agent that no step used is not kept.
 */
async function createSessionAgents(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table session_agents (
      session_id uuid not null references sessions (id) on delete cascade,
      upto_seq bigint not null,
      tenant_id text not null,
      snapshot jsonb not null,
      primary key (session_id, upto_seq)
    )`.execute(db);
  await sql`
    create function baton_keep_session_agent() returns trigger language plpgsql as $$
    begin
      insert into session_agents (session_id, upto_seq, tenant_id, snapshot)
        values (old.id, old.message_seq, old.tenant_id, old.agent_snapshot)
        on conflict do nothing;
      return null;
    end $$`.execute(db);
  await sql`
    create trigger baton_keep_session_agent after update of agent_snapshot on sessions
    for each row when (old.message_seq > 0 and old.agent_snapshot is distinct from new.agent_snapshot)
    execute function baton_keep_session_agent()`.execute(db);
}

/**
 * The types of the columns with a list of values, in the tables that each step writes. A CHECK of the table costs more:
 * Postgres parses every CHECK again for each statement, whichever columns that sets, and a domain only where it is set.
 */
const DOMAINS = {
  session_status: ['idle', 'busy', 'requires_action'],
  maintenance_kind: ['compaction', 'prune'],
  run_kind: ['task', 'maintenance'],
  run_status: ['queued', 'running', 'requires_action', 'cancelling', 'completed', 'failed', 'cancelled', 'incomplete'],
  pending_kind: ['step', 'compaction', 'prune'],
  limit_reason: ['max_steps', 'budget', 'deadline', 'doom_loop'],
  message_role: ['user', 'assistant'],
  part_type: ['text', 'reasoning', 'tool', 'file', 'source', 'step-start', 'compaction'],
  call_state: ['pending', 'awaiting_approval', 'awaiting_output', 'running', 'completed', 'error', 'denied', 'unknown'],
  required_action: ['approval', 'output', 'unknown_outcome', 'input', 'child'],
  chunk_type: ['text', 'reasoning'],
} as const;

/** Sessions and runs. */
export async function up(db: Kysely<unknown>): Promise<void> {
  for (const [name, values] of Object.entries(DOMAINS)) {
    const list = sql.join(values.map((value) => sql.lit(value)));
    await sql`create domain ${sql.ref(name)} as text check (value in (${list}))`.execute(db);
  }
  // Columns that each step updates come last, the most frequent at the very end, and pages keep room for a second
  // version of each row. Such an update is a HOT update: it stays in its page, writes no index, and its WAL covers only
  // the bytes between the first and the last difference. (https://www.postgresql.org/docs/current/storage-hot.html;
  // `log_heap_update` in src/backend/access/heap/heapam.c)
  await sql`
    create table sessions (
      id uuid primary key,
      tenant_id text not null default 'default',
      agent_name text not null,
      agent_version text not null,
      agent_snapshot jsonb not null,
      title text,
      external_key text,
      -- Of its first user message, written once: the name of a session without a title.
      first_words text,
      -- Of a fork. No references: they stay when the other session is deleted.
      forked_from_session_id uuid,
      forked_from_message_id uuid,
      conversation_asked bytea,
      conversation_head bytea,
      agent_base jsonb,
      overrides jsonb not null default '{}',
      drifted_tools jsonb not null default '{}',
      metadata jsonb not null default '{}',
      -- Of a session that a call of another one began: that session, the root of the tree, and its place below the root.
      parent_session_id uuid references sessions (id) on delete set null,
      root_session_id uuid references sessions (id) on delete set null,
      depth integer not null default 0,
      status session_status not null default 'idle',
      active_run_id uuid,
      next_run_id uuid unique,
      events_first_seq bigint not null default 1,
      inbox_seq bigint not null default 0,
      view_start_seq bigint not null default 1,
      summary_message_seq bigint,
      view_version bigint not null default 1,
      requested_resume jsonb,
      requested_maintenance maintenance_kind,
      compaction_count integer not null default 0,
      compacting_since timestamptz,
      last_compaction_at timestamptz,
      expires_at timestamptz,
      -- When the words of its new messages are to be indexed. Set where a run begins or ends, with the status, which an
      -- index has anyhow; never by a step alone.
      words_due_at timestamptz,
      created_at timestamptz(3) not null default clock_timestamp(),
      input_tokens bigint not null default 0,
      output_tokens bigint not null default 0,
      reasoning_tokens bigint not null default 0,
      cache_read_tokens bigint not null default 0,
      cache_write_tokens bigint not null default 0,
      cost_usd double precision default 0,
      step_count bigint not null default 0,
      context_state jsonb not null default '{}',
      epoch bigint not null default 0,
      message_seq bigint not null default 0,
      event_seq bigint not null default 0,
      updated_at timestamptz not null default clock_timestamp()
    ) with (fillfactor = 50)`.execute(db);
  // created_at has milliseconds, because a cursor must contain the exact value by which the list is sorted.
  await sql`create index sessions_listed on sessions (tenant_id, created_at desc, id desc)`.execute(db);
  await sql`create index sessions_by_status on sessions (tenant_id, status, created_at desc, id desc)`.execute(db);
  await sql`create index sessions_by_agent on sessions (tenant_id, agent_name, created_at desc, id desc)`.execute(db);
  await sql`
    create index sessions_of_active_run on sessions (active_run_id) where active_run_id is not null`.execute(db);
  await sql`
    create index sessions_of_parent on sessions (parent_session_id, created_at, id)
    where parent_session_id is not null`.execute(db);
  await sql`
    create index sessions_of_root on sessions (root_session_id) where root_session_id is not null`.execute(db);
  await sql`create index sessions_expiring on sessions (tenant_id, created_at, id) where expires_at is not null`.execute(
    db,
  );
  await sql`
    create index sessions_words_due on sessions (tenant_id, words_due_at) where words_due_at is not null`.execute(db);
  // Names that clients of other protocols give to conversations.
  await sql`
    create unique index sessions_by_external_key on sessions (tenant_id, external_key)
    where external_key is not null`.execute(db);
  // For clients that send their whole conversation: the hash of the latest request, and of the request with its answer.
  await sql`
    create index sessions_by_question on sessions (tenant_id, conversation_asked)
    where conversation_asked is not null`.execute(db);
  await sql`
    create index sessions_by_conversation on sessions (tenant_id, conversation_head)
    where conversation_head is not null`.execute(db);
  await sql`create index sessions_by_metadata on sessions using gin (metadata jsonb_path_ops)`.execute(db);
  await createSessionWords(db);
  await createSessionAgents(db);

  // The order of the columns is as in sessions: a worker that carries on with the next step changes no index.
  await sql`
    create table runs (
      id uuid primary key,
      tenant_id text not null default 'default',
      session_id uuid not null references sessions (id) on delete cascade,
      kind run_kind not null default 'task',
      status run_status not null default 'queued',
      status_reason text,
      lease_owner text,
      lease_expires_at timestamptz,
      pending_kind pending_kind,
      next_check_at timestamptz,
      found_taken boolean not null default false,
      tenant_slot integer,
      throttled_at timestamptz,
      attempt integer not null default 1,
      resume_count integer not null default 0,
      limits jsonb,
      -- The position of its model in the agent's list; 0 is the agent's own.
      model_position integer not null default 0,
      output_format json,
      output_state jsonb not null default '{"repairs": 0}',
      output jsonb,
      max_steps integer,
      start_inbox_seq bigint not null default 0,
      cancel_inbox_seq bigint,
      cancel_requested_at timestamptz,
      approval_expires_at timestamptz,
      -- It waits for sessions that its calls began, and for nothing that a person or a client could do.
      is_delegating boolean not null default false,
      -- The sessions that its calls began, and what those that have ended used.
      children_count integer not null default 0,
      children_steps integer not null default 0,
      children_tokens bigint not null default 0,
      children_cost_usd double precision default 0,
      budget_tokens bigint,
      budget_cost_usd double precision,
      deadline_at timestamptz,
      final_answer_for limit_reason,
      final_answer_until timestamptz,
      error jsonb,
      required_engine integer not null default 1,
      traceparent text,
      attempt_traceparent text,
      created_at timestamptz(3) not null default clock_timestamp(),
      started_at timestamptz,
      finished_at timestamptz,
      -- A new claim of the same worker changes neither of these, so it touches no index that is for them.
      is_claimed boolean not null generated always as (claim_id is not null) stored,
      -- When the work of a run without a worker is looked at. Null: it has a worker, waits for a slot, or has no work.
      due_at timestamptz generated always as (
        case when claim_id is null and pending_kind is not null and throttled_at is null
          and status in ('queued', 'running', 'cancelling') then coalesce(next_check_at, pending_at) end) stored,
      step_count integer not null default 0,
      input_tokens bigint not null default 0,
      output_tokens bigint not null default 0,
      reasoning_tokens bigint not null default 0,
      cache_read_tokens bigint not null default 0,
      cache_write_tokens bigint not null default 0,
      cost_usd double precision default 0,
      epoch bigint not null default 0,
      claim_id uuid,
      pending_no integer not null default 1,
      pending_dispatch integer not null default 1,
      pending_at timestamptz,
      constraint runs_cancel_parks check ((cancel_requested_at is null) = (cancel_inbox_seq is null))
    ) with (fillfactor = 50)`.execute(db);
  await sql`
    create unique index runs_one_active_per_session on runs (session_id)
    where status in ('queued', 'running', 'requires_action', 'cancelling')`.execute(db);
  await sql`create index runs_of_session on runs (session_id, created_at desc, id desc)`.execute(db);
  await sql`create index runs_by_status on runs (tenant_id, status, created_at desc, id desc)`.execute(db);
  await sql`create index runs_listed on runs (tenant_id, created_at desc, id desc)`.execute(db);
  await sql`
    create index runs_unclaimed on runs (pending_kind, tenant_id, due_at) where due_at is not null`.execute(db);
  // Each claimed run holds one of its tenant's slots. With a limit, no two runs hold the same slot.
  await sql`
    create unique index runs_tenant_slot on runs (tenant_id, tenant_slot)
    where is_claimed and tenant_slot is not null`.execute(db);
  await sql`
    create index runs_throttled on runs (tenant_id, created_at, id) where throttled_at is not null`.execute(db);
  await sql`
    create index runs_leased on runs (lease_expires_at)
    where is_claimed and status in ('running', 'cancelling')`.execute(db);
  await sql`
    create index runs_awaiting_answer on runs (approval_expires_at)
    where status = 'requires_action' and approval_expires_at is not null`.execute(db);
  // RUN_TRANSITIONS of src/domain/run/run.ts. The condition is short, because each statement that names the status parses
  // it again, and most of them leave the status as it is.
  await sql`
    create function runs_refuse_transition() returns trigger language plpgsql as $$
    begin
      if new.status = any (case old.status
        when 'queued' then array['running', 'cancelling', 'cancelled', 'failed', 'incomplete']
        when 'running' then array['queued', 'requires_action', 'cancelling', 'cancelled', 'completed', 'failed', 'incomplete']
        when 'requires_action' then array['running', 'cancelled']
        when 'cancelling' then array['cancelled', 'completed', 'failed']
        when 'failed' then array['queued']
        else array[]::text[] end) then return null; end if;
      raise exception 'a run cannot go from % to %', old.status, new.status;
    end $$`.execute(db);
  await sql`
    create trigger runs_refuse_transition after update of status on runs
    for each row when (new.status <> old.status) execute function runs_refuse_transition()`.execute(db);
  await sql`
    alter table sessions add constraint sessions_active_run_fk
    foreign key (active_run_id) references runs (id) deferrable initially deferred`.execute(db);
}

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql`alter table sessions drop constraint sessions_active_run_fk`.execute(db);
  await sql`drop table runs`.execute(db);
  await sql`drop table session_words`.execute(db);
  await sql`drop table session_agents`.execute(db);
  await sql`drop function runs_refuse_transition`.execute(db);
  await sql`drop table sessions`.execute(db);
  await sql`drop function baton_note_session_words`.execute(db);
  await sql`drop function baton_keep_session_agent`.execute(db);
  await sql`drop function baton_split_words`.execute(db);
  for (const name of Object.keys(DOMAINS)) await sql`drop domain ${sql.ref(name)}`.execute(db);
}
