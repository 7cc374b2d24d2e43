import { type Kysely, sql } from 'kysely';

/** Bytes per row that count as stored for the tenant. A session counts for its agent and its other rows. */
const COUNTED = { sessions: '8192', inbox: 'content_bytes', parts: 'content_bytes', blobs: 'size_bytes' };
const CHANGING = ['inbox', 'parts'];

/** Adds triggers that count inserts, updates and deletes of a table. */
async function countStored(db: Kysely<unknown>, table: string, bytes: string): Promise<void> {
  for (const [verb, rows, sign] of [
    ['insert', 'new', ''],
    ['delete', 'old', '-'],
  ] as const) {
    const name = sql.ref(`baton_count_${table}_${verb}`);
    await sql`
      create function ${name}() returns trigger language plpgsql as $$
      declare
        v_tenant record;
      begin
        for v_tenant in select tenant_id, ${sql.raw(sign)}sum(${sql.raw(bytes)})::bigint as bytes from changed group by tenant_id loop
          perform baton_count_stored(v_tenant.tenant_id, v_tenant.bytes);
        end loop;
        return null;
      end $$`.execute(db);
    await sql`
      create trigger ${name} after ${sql.raw(verb)} on ${sql.table(table)}
      referencing ${sql.raw(rows)} table as changed for each statement execute function ${name}()`.execute(db);
  }
  if (!CHANGING.includes(table)) return;
  await sql`
    create trigger ${sql.ref(`baton_count_${table}_update`)} after update on ${sql.table(table)}
    for each row when (old.content_bytes is distinct from new.content_bytes)
    execute function baton_count_changed()`.execute(db);
}

/**
 * The event log, the history of compactions, records about tenants, callers and workers, and which history of the
 * database this is.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table history (
      is_only boolean primary key default true check (is_only),
      epoch text not null,
      identity text not null
    )`.execute(db);

  await sql`
    create table events (
      session_id uuid not null references sessions (id) on delete cascade,
      seq bigint not null,
      tenant_id text not null default 'default',
      run_id uuid,
      type text not null,
      data jsonb not null,
      data_bytes integer not null generated always as (octet_length(data::text)) stored,
      created_at timestamptz not null default clock_timestamp(),
      primary key (session_id, seq)
    )`.execute(db);
  await sql`create index events_of_maintenance on events (run_id) where type in ('prune:complete', 'llm:adapted')`.execute(
    db,
  );

  await sql`
    create table compactions (
      id uuid primary key,
      tenant_id text not null default 'default',
      session_id uuid not null references sessions (id) on delete cascade,
      run_id uuid references runs (id) on delete set null,
      round integer not null,
      strategy text not null,
      reason text not null,
      state text not null default 'running' check (state in ('running', 'completed', 'rejected', 'failed')),
      from_seq bigint not null,
      upto_seq bigint not null,
      summary_message_seq bigint,
      tokens_before integer not null,
      tokens_after integer,
      attempts integer not null default 0,
      cost_usd double precision default 0,
      usage jsonb,
      error jsonb,
      started_at timestamptz not null default clock_timestamp(),
      finished_at timestamptz,
      unique (session_id, round)
    )`.execute(db);
  await sql`create index compactions_of_run on compactions (run_id) where run_id is not null`.execute(db);
  await sql`create index compactions_running on compactions (session_id) where state = 'running'`.execute(db);

  await sql`
    create table idempotency_keys (
      tenant_id text not null default 'default',
      route text not null,
      key text not null,
      request_sha256 bytea not null,
      response_status integer not null,
      response_body jsonb not null,
      created_at timestamptz not null default clock_timestamp(),
      expires_at timestamptz not null,
      primary key (tenant_id, route, key)
    )`.execute(db);
  await sql`create index idempotency_keys_expiring on idempotency_keys (tenant_id, expires_at)`.execute(db);

  await sql`
    create table api_keys (
      id uuid primary key,
      tenant_id text not null default 'default',
      name text not null,
      shown text not null,
      key_sha256 bytea not null unique check (length(key_sha256) = 32),
      scopes text[] not null check (scopes <@ array['read', 'write', 'admin', 'operator']),
      created_at timestamptz not null default clock_timestamp(),
      last_used_at timestamptz,
      expires_at timestamptz,
      revoked_at timestamptz
    )`.execute(db);

  // Logins of the console, with the hashes of both secrets that the browser sends. A login ends with its key.
  await sql`
    create table console_logins (
      id uuid primary key,
      key_id uuid not null references api_keys (id) on delete cascade,
      cookie_sha256 bytea not null unique check (length(cookie_sha256) = 32),
      page_sha256 bytea not null check (length(page_sha256) = 32),
      board_sha256 bytea not null check (length(board_sha256) = 32),
      created_at timestamptz not null default clock_timestamp(),
      expires_at timestamptz not null
    )`.execute(db);
  await sql`create index console_logins_of_key on console_logins (key_id, created_at desc)`.execute(db);

  // The secret that seals the tokens of sessions: one row, written by the first process that needs it.
  await sql`
    create table token_secret (
      is_only boolean primary key default true check (is_only),
      secret bytea not null check (length(secret) = 32)
    )`.execute(db);

  // The audit log. Rows are only added; retention removes old ones.
  await sql`create sequence audit_log_seq`.execute(db);
  await sql`
    create table audit_log (
      seq bigint primary key default nextval('audit_log_seq'),
      tenant_id text not null default 'default',
      key_id uuid,
      action text not null,
      target text not null,
      created_at timestamptz not null default clock_timestamp()
    )`.execute(db);
  await sql`create index audit_log_listed on audit_log (tenant_id, seq desc)`.execute(db);

  // Usage of deleted runs on the last day with a deletion: quotas still count it.
  await sql`
    create table deleted_usage (
      tenant_id text primary key,
      day date not null,
      tokens bigint not null,
      cost_usd double precision not null
    )`.execute(db);

  // Stored bytes of a tenant: the sum of its rows. A writer adds to any row that is not locked, so that no transaction
  // waits for another; there are as many rows as there were concurrent writers.
  await sql`
    create table stored_bytes (
      tenant_id text not null,
      share integer not null,
      bytes bigint not null,
      primary key (tenant_id, share)
    ) with (fillfactor = 50)`.execute(db);
  await sql`
    create function baton_count_changed() returns trigger language plpgsql as $$
    begin
      perform baton_count_stored(new.tenant_id, new.content_bytes - old.content_bytes);
      return null;
    end $$`.execute(db);
  for (const [table, bytes] of Object.entries(COUNTED)) await countStored(db, table, bytes);

  await sql`create sequence worker_lock_keys`.execute(db);
  await sql`
    create table workers (
      -- The host and the process id, and characters that make it unique.
      id text primary key,
      kinds text[] not null check (kinds <@ array['step', 'compaction', 'prune', 'delivery']),
      -- Its version of the job protocol.
      engine integer not null default 1,
      lock_key bigint not null unique,
      locked_at timestamptz not null default clock_timestamp(),
      lost_alone boolean not null default false,
      seen_at timestamptz not null default clock_timestamp()
    )`.execute(db);

  // Dead workers. A claim that one of them sent may still wait for a lock, and must be refused: nobody would renew it.
  await sql`
    create table dead_workers (
      id text primary key,
      died_at timestamptz not null default clock_timestamp()
    )`.execute(db);

  await sql`
    create table model_limits (
      provider text not null,
      endpoint text not null,
      model text not null,
      context_tokens integer,
      input_tokens integer,
      estimator_prior double precision,
      -- When its endpoint last refused a request for its tools.
      tools_refused_at timestamptz,
      primary key (provider, endpoint, model)
    )`.execute(db);

  // Changes of requests after which an endpoint accepts them. Each belongs to a tenant, because it names the tenant's files
  // and tools: a refusal of one tenant's request changes nothing for another.
  await sql`
    create table model_adaptations (
      tenant_id text not null,
      provider text not null,
      endpoint text not null,
      model text not null,
      kind text not null,
      detail text not null,
      learned_at timestamptz not null default clock_timestamp(),
      primary key (tenant_id, provider, endpoint, model, kind, detail)
    )`.execute(db);

  await sql`
    create table provider_pauses (
      model text not null,
      tenant_id text not null,
      endpoint text not null,
      -- A hash of the key that it is asked with, never the key.
      credential text not null,
      -- The session that was told to wait the longest.
      session_id uuid not null,
      told_at timestamptz not null,
      until_at timestamptz not null,
      -- Until when another session of the tenant was told to wait, too.
      agreed_until_at timestamptz,
      primary key (model, tenant_id, endpoint, credential)
    )`.execute(db);
  await sql`create index provider_pauses_of_model on provider_pauses (model, until_at)`.execute(db);

  // Only the probe for free disk space writes here, and it rolls back.
  await sql`create table write_probe (filler text not null)`.execute(db);
  await sql`alter table write_probe alter column filler set storage plain`.execute(db);
}

export async function down(db: Kysely<unknown>): Promise<void> {
  for (const table of Object.keys(COUNTED)) {
    for (const verb of ['insert', 'delete']) {
      await sql`drop function ${sql.ref(`baton_count_${table}_${verb}`)} cascade`.execute(db);
    }
  }
  await sql`drop function baton_count_changed cascade`.execute(db);
  for (const table of [
    'stored_bytes',
    'provider_pauses',
    'model_adaptations',
    'model_limits',
    'dead_workers',
    'workers',
    'deleted_usage',
    'audit_log',
    'token_secret',
    'console_logins',
    'api_keys',
    'idempotency_keys',
    'compactions',
    'events',
  ]) {
    await sql`drop table ${sql.table(table)}`.execute(db);
  }
  await sql`drop table write_probe`.execute(db);
  await sql`drop table history`.execute(db);
  await sql`drop sequence audit_log_seq`.execute(db);
  await sql`drop sequence worker_lock_keys`.execute(db);
}
