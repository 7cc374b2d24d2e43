import { type Kysely, sql } from 'kysely';

/** The sessions that calls begin, one for each call. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    create table children (
      -- The call. Its child's session, message and run have ids that are made of it, so to begin it twice is to begin it
      -- once.
      parent_session_id uuid not null references sessions (id) on delete cascade,
      message_id uuid not null,
      idx integer not null,
      tenant_id text not null default 'default',
      parent_run_id uuid not null,
      tool_name text not null,
      agent_name text not null,
      mode text not null check (mode in ('wait', 'background')),
      -- Those of the call, at most what its run had left when it asked.
      limits jsonb not null,
      max_parallel integer not null,
      session_id uuid not null,
      run_id uuid not null,
      -- held: waits for a sibling to end. asked: to be begun. ended: its result is to be delivered. dropped: the one who
      -- called waits no longer.
      state text not null check (state in ('held', 'asked', 'running', 'ended', 'delivered', 'dropped')),
      stop_requested boolean not null default false,
      -- The readers of the parent know that it runs.
      is_told boolean not null default false,
      -- Calls of its run that a person or a client has to act on, and how many of them the root has been told of.
      asks integer not null default 0,
      asks_told integer not null default 0,
      result jsonb,
      -- When a process looks after it. Null: there is nothing to do.
      due_at timestamptz(3),
      created_at timestamptz(3) not null default clock_timestamp(),
      ended_at timestamptz,
      primary key (parent_session_id, message_id, idx)
    )`.execute(db);
  await sql`create index children_due on children (tenant_id, due_at) where due_at is not null`.execute(db);
  await sql`create index children_of_call_run on children (parent_run_id)`.execute(db);
  await sql`create index children_of_parent on children (parent_session_id, state)`.execute(db);
  await sql`create index children_by_session on children (session_id)`.execute(db);
  await sql`create index children_by_run on children (run_id)`.execute(db);
}

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql`drop table children`.execute(db);
}
