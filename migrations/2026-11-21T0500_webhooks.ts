import { type Kysely, sql } from 'kysely';

/** Webhooks, and the outbox of their deliveries. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table webhooks (
      id uuid primary key,
      tenant_id text not null default 'default',
      -- The name by which its owner puts it. Null: it has none.
      key text,
      -- The program that declares it, or 'files'. Null: it was put or created by hand.
      declared_by text,
      url text not null,
      -- As it was given: each delivery is signed with it.
      secret text not null,
      events text[] not null check (events <@ array['run:completed', 'run:failed', 'run:cancelled', 'run:incomplete', 'run:requires-action']),
      -- Null: of every agent.
      agent_name text,
      -- Null: enabled.
      disabled_for text check (disabled_for in ('request', 'gone', 'failing', 'undeclared')),
      -- The first failed attempt since the last delivery that succeeded.
      failing_since timestamptz,
      created_at timestamptz(3) not null default clock_timestamp(),
      updated_at timestamptz not null default clock_timestamp()
    )`.execute(db);
  await sql`create unique index webhooks_key on webhooks (tenant_id, key) where key is not null`.execute(db);
  await sql`create index webhooks_listed on webhooks (tenant_id, created_at desc, id desc)`.execute(db);

  await sql`
    create table webhook_deliveries (
      id uuid primary key,
      tenant_id text not null default 'default',
      -- Null: of a message, whose URL and secret stand here.
      webhook_id uuid references webhooks (id) on delete cascade,
      url text,
      secret text,
      -- The webhook, or for messages the tenant with the origin of the URL. Only a few are sent to it at a time.
      endpoint text not null,
      -- Null: a test. A deleted session takes its deliveries along.
      session_id uuid references sessions (id) on delete cascade,
      run_id uuid,
      type text not null,
      -- The bytes of every attempt.
      body bytea not null,
      state text not null default 'waiting' check (state in ('waiting', 'sending', 'delivered', 'failed')),
      attempts integer not null default 0,
      -- BullMQ ignores a job id that it knows: each sending has another number.
      dispatch integer not null default 0,
      -- The attempt under way, and the worker that makes it.
      claim_id uuid,
      claimed_by text,
      -- Waiting: when it is to be sent. Sending: when it counts as lost.
      due_at timestamptz not null default clock_timestamp(),
      -- Of the last attempt.
      last_status integer,
      last_error text,
      took_ms integer,
      created_at timestamptz(3) not null default clock_timestamp(),
      finished_at timestamptz,
      check ((webhook_id is null) = (url is not null and secret is not null)),
      check (claim_id is null or state = 'sending')
    )`.execute(db);
  await sql`
    create index webhook_deliveries_waiting on webhook_deliveries (tenant_id, endpoint, due_at)
    where state = 'waiting'`.execute(db);
  await sql`
    create index webhook_deliveries_due on webhook_deliveries (tenant_id, due_at) where state = 'waiting'`.execute(db);
  await sql`
    create index webhook_deliveries_sending on webhook_deliveries (endpoint, due_at) where state = 'sending'`.execute(
    db,
  );
  await sql`
    create index webhook_deliveries_ended on webhook_deliveries (endpoint, created_at desc, id desc)
    where state in ('delivered', 'failed')`.execute(db);
  await sql`create index webhook_deliveries_listed on webhook_deliveries (tenant_id, created_at desc, id desc)`.execute(
    db,
  );
  await sql`
    create index webhook_deliveries_of_webhook on webhook_deliveries (webhook_id, created_at desc, id desc)
    where webhook_id is not null`.execute(db);
  await sql`
    create index webhook_deliveries_of_session on webhook_deliveries (session_id)
    where session_id is not null`.execute(db);
  await sql`create index webhook_deliveries_of_run on webhook_deliveries (run_id) where run_id is not null`.execute(db);

  await sql`
    create table silent_endpoints (
      endpoint text primary key,
      tenant_id text not null,
      -- When an attempt last got no answer in time. The next answer removes the row.
      silent_at timestamptz not null default clock_timestamp()
    )`.execute(db);
  await sql`create index silent_endpoints_oldest on silent_endpoints (silent_at)`.execute(db);

  // Has rows only for tenants with more endpoints than one look reads.
  await sql`
    create table delivery_cursors (
      tenant_id text primary key,
      -- The next look begins after this endpoint.
      after_endpoint text not null
    )`.execute(db);
}

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql`drop table delivery_cursors`.execute(db);
  await sql`drop table silent_endpoints`.execute(db);
  await sql`drop table webhook_deliveries`.execute(db);
  await sql`drop table webhooks`.execute(db);
}
