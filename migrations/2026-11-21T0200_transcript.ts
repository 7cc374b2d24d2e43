import { type Kysely, sql } from 'kysely';

/** The append-only transcript, the inbox, and the blobs. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table messages (
      id uuid not null,
      tenant_id text not null default 'default',
      session_id uuid not null references sessions (id) on delete cascade,
      seq bigint not null,
      role message_role not null,
      -- Of the session, like the message: no key that every row written would have to be checked against.
      run_id uuid,
      step_no integer,
      attempt integer,
      epoch bigint,
      -- The number of the event with which its step began.
      event_seq bigint,
      -- The view that the model was shown in it: its first message, and the summary before that.
      view_start_seq bigint,
      summary_seq bigint,
      -- Hashes of the request, kept when the answer came.
      request jsonb,
      -- The response of the provider that its answer is, where that is made in the background.
      provider_response jsonb,
      model text,
      finish_reason text,
      is_summary boolean not null default false,
      superseded boolean not null default false,
      -- The revert that took it out of the view.
      reverted_no integer,
      usage jsonb,
      error jsonb,
      metadata jsonb not null default '{}',
      created_at timestamptz not null default clock_timestamp(),
      finished_at timestamptz,
      primary key (session_id, seq),
      -- Of its session: callers choose ids, and one tenant's choice is nothing to another one. Each unique key of messages
      -- and parts has the session, so that the tables can be partitioned by it.
      unique (id, session_id)
    )`.execute(db);
  await sql`create index messages_of_step on messages (run_id, step_no)`.execute(db);
  await sql`
    create table session_reverts (
      session_id uuid not null references sessions (id) on delete cascade,
      no integer not null,
      tenant_id text not null default 'default',
      -- The last message that stayed, and the last one that was taken out.
      message_id uuid not null,
      to_seq bigint not null,
      upto_seq bigint not null,
      message_count integer not null,
      -- The view before.
      view_start_seq bigint not null,
      summary_message_seq bigint,
      created_at timestamptz not null default clock_timestamp(),
      undone_at timestamptz,
      primary key (session_id, no)
    )`.execute(db);

  await sql`
    create table parts (
      session_id uuid not null,
      message_id uuid not null,
      idx integer not null,
      tenant_id text not null default 'default',
      type part_type not null,
      content jsonb not null,
      tool_call_id text,
      tool_name text,
      state call_state,
      required_action required_action,
      answer jsonb,
      started_at timestamptz,
      finished_at timestamptz,
      truncated boolean not null default false,
      compacted_at timestamptz,
      view_limit integer,
      -- Limits before this one, each with the time until which it held.
      earlier_view_limits jsonb,
      media_stripped_at timestamptz,
      original_tokens integer,
      -- How another worker finds what the call has begun elsewhere.
      outside_work jsonb,
      -- What its tool has asked a person for.
      question jsonb,
      content_bytes integer not null generated always as (octet_length(content::text)) stored,
      primary key (session_id, message_id, idx),
      foreign key (message_id, session_id) references messages (id, session_id) on delete cascade,
      check ((type = 'tool') = (state is not null))
    )`.execute(db);
  await sql`
    create index parts_unsettled on parts (session_id)
    where state in ('pending', 'awaiting_approval', 'awaiting_output', 'running', 'unknown')`.execute(db);
  // Calls that wait for people, oldest first: ids of messages grow with time.
  await sql`
    create index parts_waiting on parts (tenant_id, message_id, idx)
    where required_action <> 'child' and answer is null and state in ('awaiting_approval', 'awaiting_output', 'unknown')`.execute(
    db,
  );

  await sql`
    create table part_chunks (
      session_id uuid not null,
      message_id uuid not null,
      char_offset integer not null,
      part_idx integer not null,
      type chunk_type not null,
      chunk text not null,
      primary key (session_id, message_id, char_offset),
      foreign key (message_id, session_id) references messages (id, session_id) on delete cascade
    )`.execute(db);

  // The words of texts, written behind the steps by baton_index_words. As those of session_words they begin with their
  // tenant. A message that is superseded or taken out of the view keeps its row: searches leave it out.
  await sql`
    create table message_words (
      session_id uuid not null references sessions (id) on delete cascade,
      seq bigint not null,
      tenant_id text not null,
      -- Of the session.
      created_at timestamptz(3) not null,
      words tsvector not null,
      primary key (session_id, seq)
    )`.execute(db);
  await sql`create index message_words_listed on message_words (tenant_id, created_at desc, session_id desc)`.execute(
    db,
  );
  // Each search reads all of the pending list, so the list is short.
  await sql`
    create index message_words_found on message_words using gin (words) with (gin_pending_list_limit = 1024)`.execute(
    db,
  );

  await sql`
    create table inbox (
      session_id uuid not null references sessions (id) on delete cascade,
      seq bigint not null,
      tenant_id text not null default 'default',
      id uuid not null,
      delivery text not null default 'steer' check (delivery in ('steer', 'followup', 'interrupt')),
      -- system: a notice of the service, not words of the user.
      origin text not null default 'user' check (origin in ('user', 'system')),
      -- What sent it in place of a caller.
      sent_by text check (sent_by in ('schedule', 'hook')),
      content jsonb not null,
      content_bytes integer not null generated always as (octet_length(content::text)) stored,
      limits jsonb not null default '{}',
      lowered jsonb not null default '{}',
      -- URL and secret of a webhook that hears of the run which takes up this message.
      webhook jsonb,
      output json,
      run_id uuid references runs (id) on delete set null,
      traceparent text,
      enqueued_at timestamptz not null default clock_timestamp(),
      consumed_message_seq bigint,
      primary key (session_id, seq),
      -- A caller that sends a message again, maybe to a session that it has begun anew, is told of the first one.
      unique (tenant_id, id)
    )`.execute(db);
  await sql`create index inbox_of_run on inbox (run_id, seq) where run_id is not null`.execute(db);
  await sql`create index inbox_with_webhook on inbox (run_id) where webhook is not null`.execute(db);
  await sql`create index inbox_waiting on inbox (session_id, seq) where consumed_message_seq is null`.execute(db);

  await sql`
    create table blobs (
      id uuid primary key,
      tenant_id text not null default 'default',
      sha256 bytea not null,
      media_type text not null,
      size_bytes bigint not null,
      bytes bytea,
      url text,
      created_at timestamptz not null default clock_timestamp(),
      unique (tenant_id, sha256),
      check ((bytes is null) <> (url is null))
    )`.execute(db);
  await sql`
    create table blob_refs (
      blob_id uuid not null references blobs (id) on delete restrict,
      session_id uuid not null references sessions (id) on delete cascade,
      tenant_id text not null default 'default',
      primary key (blob_id, session_id)
    )`.execute(db);
  await sql`create index blob_refs_of_session on blob_refs (session_id)`.execute(db);
}

export async function down(db: Kysely<unknown>): Promise<void> {
  for (const table of [
    'blob_refs',
    'blobs',
    'inbox',
    'message_words',
    'part_chunks',
    'parts',
    'session_reverts',
    'messages',
  ]) {
    await sql`drop table ${sql.table(table)}`.execute(db);
  }
}
