import { sql } from 'kysely';
import { z } from 'zod';
import type { ErrorRecord } from '../../domain/errors.ts';
import { CHILD_MODES, CHILD_STATES, childResultSchema, refusedChild } from '../../domain/run/child.ts';
import { runLimitsSchema } from '../../domain/run/run-limits.ts';
import { jsonSchema } from '../../domain/transcript/message.ts';
import type { Db, Tx } from '../db/database.ts';
import { toWrittenJson } from '../db/json.ts';

/** A process looks after a child alone for this long. Then another process does the rest. */
const LOOKED_AFTER_MS = 5_000;

const childSchema = z.object({
  messageId: z.uuid(),
  index: z.int(),
  tenantId: z.string(),
  parentSessionId: z.string(),
  parentRunId: z.string(),
  toolName: z.string(),
  agent: z.string(),
  mode: z.enum(CHILD_MODES),
  limits: runLimitsSchema,
  sessionId: z.string(),
  runId: z.string(),
  state: z.enum(CHILD_STATES),
  stopRequested: z.boolean(),
  isTold: z.boolean(),
  asks: z.int(),
  asksTold: z.int(),
  result: childResultSchema.nullable(),
  dueAt: z.date().nullable(),
});
/** A row of `children`: the session that a call began, or continues. */
export type Child = Readonly<z.infer<typeof childSchema>>;

export type ChildKey = Pick<Child, 'parentSessionId' | 'messageId' | 'index'>;

const COLUMNS = sql`
  c.message_id as "messageId", c.idx as index, c.tenant_id as "tenantId", c.parent_session_id as "parentSessionId",
  c.parent_run_id as "parentRunId", c.tool_name as "toolName", c.agent_name as agent, c.mode, c.limits,
  c.session_id as "sessionId", c.run_id as "runId", c.state, c.stop_requested as "stopRequested", c.is_told as "isTold",
  c.asks, c.asks_told as "asksTold", c.result, c.due_at as "dueAt"`;

const isKey = ({ parentSessionId, messageId, index }: ChildKey) =>
  sql`c.parent_session_id = ${parentSessionId} and c.message_id = ${messageId} and c.idx = ${index}`;

const KEY = sql`parent_session_id, message_id, idx`;
/** @param other a row with the columns of the key */
const hasKeyOf = (other: string) => {
  const of = sql.table(other);
  return sql`c.parent_session_id = ${of}.parent_session_id and c.message_id = ${of}.message_id and c.idx = ${of}.idx`;
};

/** `full`: tenants of which none is taken. */
export type DueChildren = Readonly<{ limit: number; perTenant: number; full: readonly string[] }>;

/**
 * Takes children with due work, of each tenant the longest due, and the tenants in turn. No other process is given them
 * for a while.
 */
export async function takeDueChildren(db: Db, { limit, perTenant, full }: DueChildren): Promise<Child[]> {
  // The column rounds to milliseconds, maybe up. Without the added millisecond, a look right after a commit would miss
  // its children.
  const { rows } = await sql`
    with recursive now as materialized (select clock_timestamp() + interval '1 millisecond' as at), tenants as (
      (select tenant_id as id from children where due_at is not null order by tenant_id limit 1)
      union all
      select (select tenant_id from children where due_at is not null and tenant_id > tenants.id
        order by tenant_id limit 1) from tenants where tenants.id is not null
    ), chosen as materialized (
      select due.parent_session_id, due.message_id, due.idx from tenants cross join lateral (
        select longest.*, row_number() over (order by due_at) as nth from (
          select ${KEY}, due_at from children where tenant_id = tenants.id and due_at <= (select at from now)
          order by due_at limit ${sql.lit(perTenant)}
        ) as longest
      ) as due
      where tenants.id <> all(${[...full]}::text[]) order by due.nth, due.due_at limit ${limit}
    ), due as materialized (
      select c.parent_session_id, c.message_id, c.idx from chosen join children c on ${hasKeyOf('chosen')}
      where c.due_at <= (select at from now) for update of c skip locked)
    update children c set due_at = clock_timestamp() + make_interval(secs => ${LOOKED_AFTER_MS / 1000})
    from due where ${hasKeyOf('due')}
    returning ${COLUMNS}`.execute(db);
  return z.array(childSchema).parse(rows);
}

/** Null: the child is gone, with the session of its parent. */
export async function readChild(db: Db, key: ChildKey): Promise<Child | null> {
  const { rows } = await sql`select ${COLUMNS} from children c where ${isKey(key)}`.execute(db);
  return childSchema.nullable().parse(rows[0] ?? null);
}

/** Whether the run is that of a child which still works and is to stop. */
export async function isToStop(db: Db, runId: string): Promise<boolean> {
  const { rows } = await sql`
    select 1 from children where run_id = ${runId} and state = 'running' and stop_requested`.execute(db);
  return rows.length > 0;
}

/** The child, locked. The caller holds the lock of its parent's session. */
export async function lockChild(tx: Tx, key: ChildKey): Promise<Child | null> {
  const { rows } = await sql`select ${COLUMNS} from children c where ${isKey(key)} for no key update`.execute(tx);
  return childSchema.nullable().parse(rows[0] ?? null);
}

/** The working child whose run this is, locked. The caller holds the lock of its root's session. */
export async function lockChildOf(tx: Tx, runId: string): Promise<Child | null> {
  const { rows } = await sql`
    select ${COLUMNS} from children c where c.run_id = ${runId} and c.state = 'running' for no key update`.execute(tx);
  return childSchema.nullable().parse(rows[0] ?? null);
}

/** Notes that no work is due for the child, unless the child has changed since this process took it. */
export async function settleChild(db: Db, { dueAt, ...key }: Child): Promise<void> {
  await sql`update children c set due_at = null where ${isKey(key)} and due_at = ${dueAt}`.execute(db);
}

/** `settleChild` for several children. */
export async function settleChildren(db: Db, children: readonly Child[]): Promise<void> {
  await sql`
    update children c set due_at = null from unnest(
      ${children.map(({ parentSessionId }) => parentSessionId)}::uuid[],
      ${children.map(({ messageId }) => messageId)}::uuid[], ${children.map(({ index }) => index)}::integer[],
      ${children.map(({ dueAt }) => dueAt)}::timestamptz[]
    ) as settled (parent_session_id, message_id, idx, due_at)
    where ${hasKeyOf('settled')} and c.due_at = settled.due_at`.execute(db);
}

const callSchema = z.object({
  input: jsonSchema,
  depth: z.int(),
  rootSessionId: z.string(),
  expiresAt: z.date().nullable(),
});

/** The input of the call that began a child, and the place of its parent in the tree. */
export async function readChildCall(
  db: Db,
  { parentSessionId, messageId, index }: ChildKey,
): Promise<z.infer<typeof callSchema>> {
  const { rows } = await sql`
    select parts.content -> 'input' as input, sessions.depth, sessions.expires_at as "expiresAt",
      coalesce(sessions.root_session_id, sessions.id) as "rootSessionId"
    from parts join sessions on sessions.id = parts.session_id
    where parts.session_id = ${parentSessionId} and parts.message_id = ${messageId} and parts.idx = ${index}`.execute(
    db,
  );
  return callSchema.parse(rows[0]);
}

/** Notes that the child's run has been started. False: it was stopped before, or another process has started it. */
export async function noteBegin(tx: Tx, key: ChildKey, runId: string): Promise<boolean> {
  const { rows } = await sql`
    update children c set state = 'running', run_id = ${runId}, due_at = clock_timestamp()
    where ${isKey(key)} and state = 'asked' returning 1`.execute(tx);
  return rows.length > 0;
}

/** Ends a child that cannot be begun. */
export async function noteRefused(db: Db, key: ChildKey, error: ErrorRecord): Promise<void> {
  await sql`
    update children c set state = 'ended', result = ${toWrittenJson(refusedChild(error))}::jsonb, ended_at = clock_timestamp(),
      due_at = clock_timestamp() where ${isKey(key)} and state = 'asked'`.execute(db);
}

/** Notes that the parent's readers know that the child runs. The caller holds the lock of the parent's session. */
export async function noteAnnounced(tx: Tx, key: ChildKey): Promise<void> {
  await sql`update children c set is_told = true where ${isKey(key)}`.execute(tx);
}

/**
 * Notes that the result was delivered, or dropped because the parent no longer waits. Adds the child's usage to the run
 * that called, and lets the next child of the tool begin. The caller holds the lock of the parent's session and of the
 * child.
 */
export async function noteDelivered(tx: Tx, child: Child, state: 'delivered' | 'dropped'): Promise<void> {
  const { steps, tokens, costUsd } = child.result ?? { steps: 0, tokens: 0, costUsd: 0 };
  await sql`update children c set state = ${state} where ${isKey(child)}`.execute(tx);
  await sql`
    update runs set children_steps = children_steps + ${steps}, children_tokens = children_tokens + ${tokens},
      children_cost_usd = children_cost_usd + ${costUsd}::double precision
    where id = ${child.parentRunId}`.execute(tx);
  await sql`
    update children set state = 'asked', due_at = clock_timestamp()
    where (${KEY}) = (
      select ${KEY} from children
      where parent_session_id = ${child.parentSessionId} and state = 'held' and tool_name = ${child.toolName}
      order by created_at, ${KEY} limit 1)`.execute(tx);
}

/**
 * Notes the number of calls of a child's run that wait for a person or a client. The caller holds the lock of the
 * child's session.
 */
export async function noteAsks(tx: Tx, runId: string, asks: number): Promise<void> {
  await sql`
    update children set asks = ${asks}, due_at = clock_timestamp()
    where run_id = ${runId} and state = 'running' and asks <> ${asks}`.execute(tx);
}

/**
 * Asks that the children of a session in the background stop, those of all its runs, and also the children of children
 * that have ended. The caller holds the session's lock.
 */
export async function stopChildrenOf(tx: Tx, sessionId: string): Promise<void> {
  await sql`
    select baton_stop_children(run, true) from (
      select distinct parent_run_id as run from children
      where parent_session_id = ${sessionId} and state in ('held', 'asked', 'running') and mode = 'background') as runs`.execute(
    tx,
  );
  // Children that a working child waits for are stopped by the end of its run. All rows are locked in one order, because
  // two cancels may meet.
  await sql`
    with recursive ${belowSession(sessionId)}, working as materialized (
      select ${KEY} from children
      where parent_session_id in (select id from below) and state = 'running' and mode = 'background'
        and not stop_requested
      order by ${KEY} for no key update)
    update children c set stop_requested = true, due_at = clock_timestamp()
    from working where ${hasKeyOf('working')}`.execute(tx);
}

/**
 * Notes that the root has been told of the waiting calls of a child. Its run is `requires_action` to the outside while
 * any call of the tree waits. The caller holds the locks of the root's session and of the child.
 * @returns the number of waiting calls in the tree
 */
export async function noteAnnouncedAsks(
  tx: Tx,
  child: Child,
  root: Readonly<{ id: string; active_run_id: string | null }>,
): Promise<number> {
  await sql`update children c set asks_told = asks where ${isKey(child)}`.execute(tx);
  const open = await countAsks(tx, root.id);
  // The run stays `requires_action` while its own calls wait for a person.
  const { rows } = await sql`
    update runs set is_delegating = ${open === 0}
    where id = ${root.active_run_id} and status = 'requires_action' and not exists (
      select 1 from messages
        join parts on parts.session_id = messages.session_id and parts.message_id = messages.id
      where messages.run_id = runs.id and parts.required_action <> 'child' and parts.answer is null
        and parts.state in ('awaiting_approval', 'awaiting_output', 'unknown'))
    returning 1`.execute(tx);
  if (rows.length > 0) {
    const status = open === 0 ? 'busy' : 'requires_action';
    await sql`update sessions set status = ${status} where id = ${root.id}`.execute(tx);
  }
  return open;
}

/** Number of waiting calls below the root of a tree that the root has been told of. */
export async function countAsks(tx: Tx, rootSessionId: string): Promise<number> {
  const { rows } = await sql<{ open: number }>`
    select coalesce(sum(c.asks_told), 0)::integer as open
    from sessions s join children c on c.session_id = s.id and c.state = 'running'
    where s.root_session_id = ${rootSessionId} and c.asks_told > 0`.execute(tx);
  return rows[0]?.open ?? 0;
}

/** Asks that the children of a run stop. The caller holds the locks of the run and of its session. */
export async function stopChildren(tx: Tx, runId: string): Promise<void> {
  await sql`select baton_stop_children(${runId}, false)`.execute(tx);
}

/** All sessions below one. A tree has few levels. */
const belowSession = (sessionId: string) => sql`below (id) as (
  select id from sessions where parent_session_id = ${sessionId}
  union all select s.id from sessions s join below on s.parent_session_id = below.id)`;

/** Sessions below one that are at work, at most `limit`. */
export async function readWorkingBelow(tx: Tx, sessionId: string, limit: number): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    with recursive ${belowSession(sessionId)}
    select s.id from sessions s join below on below.id = s.id where s.active_run_id is not null
    order by s.created_at, s.id limit ${limit}`.execute(tx);
  return rows.map(({ id }) => id);
}
