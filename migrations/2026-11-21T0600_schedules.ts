import { type Kysely, sql } from 'kysely';

/** Schedules and their fires. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table schedules (
      id uuid primary key,
      tenant_id text not null default 'default',
      -- The name by which its owner puts it. Null: it has none.
      key text,
      -- The program that declares it, or 'files'. Null: it was put or created by hand.
      declared_by text,
      agent_name text not null,
      title text,
      cron text not null,
      timezone text not null,
      content text not null,
      session_kind text not null check (session_kind in ('new', 'same')),
      overlap text not null check (overlap in ('skip', 'queue', 'replace')),
      catchup text not null check (catchup in ('none', 'last')),
      jitter_ms integer not null,
      -- Null: it fires.
      paused_reason text,
      -- The next fire by the clock of the schedule, and when it is due with its jitter. Null: there is none.
      next_fire_at timestamptz(3),
      due_at timestamptz(3),
      -- The fire that is due waits until the last run has ended.
      is_held boolean not null default false,
      -- With session_kind 'same', after the first fire.
      session_id uuid references sessions (id) on delete set null,
      last_run_id uuid,
      created_at timestamptz(3) not null default clock_timestamp(),
      updated_at timestamptz(3) not null default clock_timestamp()
    )`.execute(db);
  await sql`create unique index schedules_key on schedules (tenant_id, key) where key is not null`.execute(db);
  await sql`create index schedules_listed on schedules (tenant_id, created_at desc, id desc)`.execute(db);
  await sql`
    create index schedules_due on schedules (tenant_id, due_at)
    where paused_reason is null and due_at is not null`.execute(db);
  await sql`create index schedules_of_session on schedules (session_id) where session_id is not null`.execute(db);

  await sql`
    create table schedule_fires (
      schedule_id uuid not null references schedules (id) on delete cascade,
      -- A fire happens once: this key is its identity, and its message and run have ids that are made of it.
      fire_at timestamptz(3) not null,
      tenant_id text not null default 'default',
      result text not null check (result in ('fired', 'skipped', 'missed', 'failed')),
      session_id uuid,
      run_id uuid,
      error jsonb,
      created_at timestamptz(3) not null default clock_timestamp(),
      primary key (schedule_id, fire_at)
    )`.execute(db);

  // The time of the last look at schedules, in one row. A fire that was due while no worker looked for long is missed.
  await sql`
    create table schedule_looks (
      is_only boolean primary key default true check (is_only),
      looked_at timestamptz not null default clock_timestamp(),
      -- The end of the last long time without a look.
      unwatched_until timestamptz not null default clock_timestamp()
    )`.execute(db);
}

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql`drop table schedule_looks`.execute(db);
  await sql`drop table schedule_fires`.execute(db);
  await sql`drop table schedules`.execute(db);
}
