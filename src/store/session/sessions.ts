import { sql } from 'kysely';
import { BatonError } from '../../domain/errors.ts';
import { formatId } from '../../domain/ids.ts';
import type { SessionStatus } from '../../domain/run/session.ts';
import type { SessionRef } from '../../domain/run/session-ref.ts';
import { type Db, inTransaction, type Tx } from '../db/database.ts';
import { toJson, toWrittenJson } from '../db/json.ts';
import { inLockQueue } from '../db/lock-queue.ts';
import { TOKEN_COLUMNS } from '../db/usage-columns.ts';
import { readWorkingBelow } from './children.ts';
import { deleteButUsage } from './quota.ts';

const COLUMNS = [
  'id',
  'agent_name',
  'agent_version',
  'overrides',
  'title',
  'external_key',
  'first_words',
  'forked_from_session_id',
  'forked_from_message_id',
  'metadata',
  'parent_session_id',
  'root_session_id',
  'depth',
  'status',
  'active_run_id',
  'event_seq',
  'message_seq',
  'events_first_seq',
  ...TOKEN_COLUMNS,
  'cost_usd',
  'step_count',
  'compaction_count',
  'compacting_since',
  'last_compaction_at',
  'context_state',
  'expires_at',
  'created_at',
  'updated_at',
] as const;

export type SessionRow = Awaited<ReturnType<typeof findSession>>;

export type NewSession = Readonly<{
  id: string;
  tenantId: string;
  agentName: string;
  agentVersion: string;
  agentSnapshot: unknown;
  /** Differences from the agent of this name. */
  overrides?: Readonly<Record<string, unknown>>;
  title: string | null;
  metadata: Readonly<Record<string, string>>;
  /** Retention may delete the session after this time. Null: only by its age. */
  expiresAt?: Date | null;
  /** The name that a client of another protocol gives the session. */
  externalKey?: string;
  forkedFrom?: Readonly<{ sessionId: string; messageId: string | null }>;
}>;

/** @throws BatonError `conflict` if the id or the external key is taken */
export async function insertSession(db: Db, session: NewSession): Promise<SessionRow> {
  const row = await db
    .insertInto('sessions')
    .values(valuesOf(session))
    .onConflict((conflict) => conflict.doNothing())
    .returning(COLUMNS)
    .executeTakeFirst();
  if (row === undefined) throw new BatonError('conflict', `session ${formatId('session', session.id)} exists already`);
  return row;
}

/** A session that a call of another one begins. */
export type NewChildSession = NewSession & Readonly<{ parentSessionId: string; rootSessionId: string; depth: number }>;

/** Its id is made of the call, so one that exists is that of the same call. */
export async function insertChildSession(db: Db, session: NewChildSession): Promise<void> {
  const { parentSessionId, rootSessionId, depth } = session;
  await db
    .insertInto('sessions')
    .values({
      ...valuesOf(session),
      parent_session_id: parentSessionId,
      root_session_id: rootSessionId,
      depth,
    })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
}

const valuesOf = (session: NewSession) => ({
  id: session.id,
  tenant_id: session.tenantId,
  agent_name: session.agentName,
  agent_version: session.agentVersion,
  agent_snapshot: toWrittenJson(session.agentSnapshot),
  overrides: toWrittenJson(session.overrides ?? {}),
  title: session.title,
  metadata: toJson(session.metadata),
  expires_at: session.expiresAt ?? null,
  external_key: session.externalKey ?? null,
  forked_from_session_id: session.forkedFrom?.sessionId ?? null,
  forked_from_message_id: session.forkedFrom?.messageId ?? null,
});

/** @throws BatonError `not_found` */
export async function findSession(db: Db, tenantId: string, id: string) {
  const row = await db
    .selectFrom('sessions')
    .select(COLUMNS)
    .where('id', '=', id)
    .where('tenant_id', '=', tenantId)
    .executeTakeFirst();
  if (row === undefined) throw sessionNotFound(id);
  return row;
}

/** Null: no session has this external key. */
export async function findSessionByKey(db: Db, tenantId: string, externalKey: string): Promise<SessionRow | null> {
  const row = await db
    .selectFrom('sessions')
    .select(COLUMNS)
    .where('tenant_id', '=', tenantId)
    .where('external_key', '=', externalKey)
    .executeTakeFirst();
  return row ?? null;
}

/**
 * The id of the session that is meant. An id is taken as it is: whoever reads the session says that there is none.
 * @throws BatonError `not_found` (a key that no session of the tenant has)
 */
export async function findSessionId(db: Db, tenantId: string, ref: SessionRef): Promise<string> {
  if ('id' in ref) return ref.id;
  const session = await findSessionByKey(db, tenantId, ref.key);
  if (session === null) throw new BatonError('not_found', `no session has the key ${JSON.stringify(ref.key)}`);
  return session.id;
}

/** @throws BatonError `not_found` */
export async function readAgentSnapshot(db: Db, tenantId: string, id: string): Promise<unknown> {
  const row = await db
    .selectFrom('sessions')
    .select('agent_snapshot')
    .where('id', '=', id)
    .where('tenant_id', '=', tenantId)
    .executeTakeFirst();
  if (row === undefined) throw sessionNotFound(id);
  return row.agent_snapshot;
}

export type SessionFilter = Readonly<{
  tenantId: string;
  limit: number;
  status?: SessionStatus;
  agent?: string;
  /** Only children of this session. */
  parentId?: string;
  metadata?: Readonly<Record<string, string>>;
  /** ISO time: only sessions that were created then or later. */
  since?: string;
  /** Only sessions after this one in the list (newest first). */
  after?: Readonly<{ createdAt: string; id: string }>;
}>;

/** Newest first. */
export async function listSessions(db: Db, filter: SessionFilter): Promise<SessionRow[]> {
  let query = db.selectFrom('sessions').select(COLUMNS).where('tenant_id', '=', filter.tenantId);
  if (filter.status !== undefined) query = query.where('status', '=', filter.status);
  if (filter.agent !== undefined) query = query.where('agent_name', '=', filter.agent);
  if (filter.parentId !== undefined) query = query.where('parent_session_id', '=', filter.parentId);
  if (filter.since !== undefined) query = query.where('created_at', '>=', new Date(filter.since));
  if (filter.metadata !== undefined) query = query.where('metadata', '@>', toJson(filter.metadata) as never);
  const { after } = filter;
  if (after !== undefined) {
    query = query.where((eb) =>
      eb(eb.refTuple('created_at', 'id'), '<', eb.tuple(eb.val(new Date(after.createdAt)), eb.val(after.id))),
    );
  }
  return query.orderBy('created_at', 'desc').orderBy('id', 'desc').limit(filter.limit).execute();
}

/** The tenant's sessions among these, in the order of the ids. */
export async function readSessions(db: Db, tenantId: string, ids: readonly string[]): Promise<SessionRow[]> {
  if (ids.length === 0) return [];
  const rows = await db
    .selectFrom('sessions')
    .select(COLUMNS)
    .where('id', 'in', ids)
    .where('tenant_id', '=', tenantId)
    .execute();
  const byId = new Map(rows.map((row) => [row.id, row]));
  return ids.flatMap((id) => byId.get(id) ?? []);
}

export type LockedSession = Awaited<ReturnType<typeof lockSession>>;

/** The session's row, locked until the transaction ends. @throws BatonError `not_found`; LockBusy */
export async function lockSession(tx: Tx, tenantId: string, id: string) {
  const locked = tx
    .selectFrom('sessions')
    .selectAll()
    .where('id', '=', id)
    .where('tenant_id', '=', tenantId)
    .forNoKeyUpdate();
  const row = await inLockQueue(`session ${tenantId} ${id}`, () => locked.executeTakeFirst());
  if (row === undefined) throw sessionNotFound(id);
  return row;
}

/** @throws BatonError `not_found` */
export async function updateSession(
  db: Db | Tx,
  tenantId: string,
  id: string,
  change: Readonly<{
    title?: string | null | undefined;
    metadata?: Readonly<Record<string, string>> | undefined;
    expiresAt?: Date | null | undefined;
  }>,
): Promise<SessionRow> {
  return inTransaction(db, async (tx) => {
    await lockSession(tx, tenantId, id);
    return tx
      .updateTable('sessions')
      .set({
        updated_at: sql`clock_timestamp()`,
        ...(change.title === undefined ? {} : { title: change.title }),
        ...(change.metadata === undefined ? {} : { metadata: toJson(change.metadata) }),
        ...(change.expiresAt === undefined ? {} : { expires_at: change.expiresAt }),
      })
      .where('id', '=', id)
      .where('tenant_id', '=', tenantId)
      .returning(COLUMNS)
      .executeTakeFirstOrThrow();
  });
}

export function sessionNotFound(id: string): BatonError {
  return new BatonError('not_found', `session ${formatId('session', id)} does not exist`);
}

/** Sessions that a refusal names. */
const MAX_NAMED = 5;

/** Whether any other tenant has a session. */
export async function hasOtherSessions(db: Db, tenantId: string): Promise<boolean> {
  const other = await db.selectFrom('sessions').select('id').where('tenant_id', '<>', tenantId).limit(1).execute();
  return other.length > 0;
}

/**
 * Deletes a session with all its data. The lock keeps a run from starting meanwhile. Sessions below it stay, as sessions
 * of their own.
 * @throws BatonError `not_found`; `conflict` while a run is active, in it or in a session below it
 */
export async function deleteSession(db: Db | Tx, tenantId: string, id: string): Promise<void> {
  await inTransaction(db, async (tx) => {
    const session = await lockSession(tx, tenantId, id);
    if (session.active_run_id !== null) {
      const run = formatId('run', session.active_run_id);
      throw new BatonError('conflict', `session ${formatId('session', id)} is busy: cancel ${run} first`);
    }
    const working = await readWorkingBelow(tx, id, MAX_NAMED + 1);
    if (working.length > 0) throw new BatonError('conflict', workingWords(id, working));
    await deleteButUsage(tx, id, async () => {
      await tx.deleteFrom('sessions').where('id', '=', id).execute();
      return true;
    });
  });
}

function workingWords(id: string, working: readonly string[]): string {
  const named = working.slice(0, MAX_NAMED).map((one) => formatId('session', one));
  const more = working.length > MAX_NAMED ? ' and more' : '';
  return `children of session ${formatId('session', id)} are at work: ${named.join(', ')}${more}. Cancel it first, which stops them`;
}
