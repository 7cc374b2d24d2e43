import { type RawBuilder, sql } from 'kysely';
import type { Db, Tx } from '../db/database.ts';
import { deleteButUsage } from '../session/quota.ts';

/** No run is active, and no child in the background has a result to come. */
const IDLE = sql<boolean>`active_run_id is null and status = 'idle' and not exists (
  select 1 from children c where c.parent_session_id = sessions.id and c.state in ('held', 'asked', 'running', 'ended'))`;

const HAS_EXPIRED = sql<boolean>`expires_at < clock_timestamp()`;

/** @param before null: only expired sessions are stale */
const isStale = (before: Date | null) =>
  before === null ? HAS_EXPIRED : sql<boolean>`(updated_at < ${before} or ${HAS_EXPIRED})`;

/** A time in the past by the clock of Postgres, which also wrote the rows. */
export async function timeBefore(db: Db, ageMs: number): Promise<Date> {
  const { rows } = await sql<{ before: Date }>`
    select clock_timestamp() - make_interval(secs => ${ageMs / 1_000}) as before`.execute(db);
  if (rows[0] === undefined) throw new Error('the database does not tell the time');
  return rows[0].before;
}

/** A session in the order in which those of a tenant are looked at: the oldest first. */
export type Place = Readonly<{ id: string; createdAt: Date }>;

/** Before every session. */
export const FIRST_PLACE: Place = { id: '00000000-0000-0000-0000-000000000000', createdAt: new Date(0) };

const isBehind = ({ id, createdAt }: Place): RawBuilder<boolean> =>
  sql<boolean>`(created_at, id) > (${createdAt}, ${id}::uuid)`;

const IN_ORDER = sql`order by created_at, id`;
const PLACE = sql`id, created_at as "createdAt"`;

const WHERE_TENANTS_HAVE = {
  sessions: sql`sessions where true`,
  expiringSessions: sql`sessions where expires_at is not null`,
  blobs: sql`blobs where true`,
  auditEntries: sql`audit_log where true`,
} as const;

/** Tenants that have such data, found by a walk in an index from one to the next. */
export async function findTenantsWith(db: Db, what: keyof typeof WHERE_TENANTS_HAVE): Promise<readonly string[]> {
  const from = WHERE_TENANTS_HAVE[what];
  const { rows } = await sql<{ id: string }>`
    with recursive tenants (id) as (
      (select tenant_id from ${from} order by tenant_id limit 1)
      union all
      select (select tenant_id from ${from} and tenant_id > tenants.id order by tenant_id limit 1)
        from tenants where tenants.id is not null
    )
    select id from tenants where id is not null`.execute(db);
  return rows.map(({ id }) => id);
}

/** Idle sessions of a tenant that have expired, behind this place. */
export async function findExpiredSessions(db: Db, tenantId: string, after: Place, limit: number): Promise<Place[]> {
  const { rows } = await sql<Place>`
    select ${PLACE} from sessions where tenant_id = ${tenantId} and ${isBehind(after)} and ${IDLE} and ${HAS_EXPIRED}
    ${IN_ORDER} limit ${limit}`.execute(db);
  return rows;
}

/** Idle sessions of a tenant that were not updated since `before`, behind this place. */
export function findOldSessions(db: Db, tenantId: string, search: OldSearch): Promise<Place[]> {
  return findOld(db, tenantId, search, sql<boolean>`updated_at < ${search.before}`);
}

type OldSearch = Readonly<{ before: Date; after: Place; limit: number }>;

async function findOld(
  db: Db,
  tenantId: string,
  { before, after, limit }: OldSearch,
  isWanted: RawBuilder<boolean>,
): Promise<Place[]> {
  const { rows } = await sql<Place>`
    select ${PLACE} from sessions where tenant_id = ${tenantId} and ${isBehind(after)} and created_at < ${before}
      and ${IDLE} and ${isWanted}
    ${IN_ORDER} limit ${limit}`.execute(db);
  return rows;
}

/** Deletes a session with all its data, unless a run has begun or another transaction has its lock. */
export async function deleteIfStale(db: Db, sessionId: string, before: Date | null): Promise<boolean> {
  return db.transaction().execute(async (tx) => {
    if (!(await lockIdle(tx, sessionId))) return false;
    return deleteButUsage(tx, sessionId, async () => {
      const { numAffectedRows } = await sql`
        delete from sessions where id = ${sessionId} and ${IDLE} and ${isStale(before)}`.execute(tx);
      return numAffectedRows === 1n;
    });
  });
}

async function lockIdle(tx: Tx, sessionId: string): Promise<boolean> {
  const { rows } = await sql`
    select 1 from sessions where id = ${sessionId} and ${IDLE} for no key update skip locked`.execute(tx);
  return rows.length === 1;
}

/** Idle sessions of a tenant whose oldest event is older, behind this place. */
export function findOldLogs(db: Db, tenantId: string, search: OldSearch): Promise<Place[]> {
  const hasOldEvent = sql<boolean>`exists (
    select 1 from events where session_id = sessions.id and seq = events_first_seq
      and events.created_at < ${search.before})`;
  return findOld(db, tenantId, search, hasOldEvent);
}

/**
 * Removes at most `limit` of the oldest events of an idle session, and returns how many. A reader that is further
 * behind gets a new snapshot.
 */
export async function trimEvents(db: Db, sessionId: string, before: Date, limit: number): Promise<number> {
  return db.transaction().execute(async (tx) => {
    if (!(await lockIdle(tx, sessionId))) return 0;
    // By number, up to the first event that stays: a log has no gaps, even if clocks disagreed.
    const { rows } = await sql<{ upto: number }>`
      select least(s.events_first_seq + ${limit}, coalesce(
        (select min(seq) from events where session_id = s.id and created_at >= ${before}), s.event_seq + 1)) as upto
      from sessions s where id = ${sessionId}`.execute(tx);
    const { upto = 0 } = rows[0] ?? {};
    const { numAffectedRows } = await sql`
      delete from events where session_id = ${sessionId} and seq < ${upto}`.execute(tx);
    await sql`
      update sessions set events_first_seq = ${upto} where id = ${sessionId} and events_first_seq < ${upto}`.execute(
      tx,
    );
    return Number(numAffectedRows ?? 0);
  });
}

/** A page of a tenant's files. `removed` of them are gone. `last` is the page's last hash; null: no file follows. */
export type CollectedBlobs = Readonly<{ removed: number; last: Uint8Array | null }>;

/** A page ends once it has files of so many bytes to delete: Postgres ends a statement that takes too long. */
const MAX_DELETED_BYTES = 67_108_864;

type BlobPage = Readonly<{ before: Date; after: Uint8Array | null; limit: number }>;
type Orphans = Readonly<{ ids: string[]; last: Uint8Array | null }>;

/**
 * Deletes the older blobs without references among the next `limit` of a tenant, in the order of their hashes. It locks
 * them and checks again, because a new reference also needs the lock.
 */
export async function deleteOrphanedBlobs(
  db: Db,
  tenantId: string,
  { before, after, limit }: BlobPage,
): Promise<CollectedBlobs> {
  return db.transaction().execute(async (tx) => {
    const { rows } = await sql<Orphans>`
      with page as materialized (
        select id, sha256, size_bytes, created_at from blobs
        where tenant_id = ${tenantId} and sha256 > ${after ?? new Uint8Array()} order by sha256 limit ${limit}
      ), orphans as materialized (
        select id, sha256, sum(size_bytes) over (order by sha256) - size_bytes as before_bytes from page
        where created_at < ${before} and not exists (select 1 from blob_refs where blob_id = page.id)
      ), locked as materialized (
        select id from blobs where id = any(array(select id from orphans where before_bytes < ${MAX_DELETED_BYTES}))
        order by id for update skip locked
      )
      select coalesce((select array_agg(id) from locked), '{}') as ids, coalesce(
        (select sha256 from orphans where before_bytes < ${MAX_DELETED_BYTES} and exists (
          select 1 from orphans where before_bytes >= ${MAX_DELETED_BYTES}) order by sha256 desc limit 1),
        (select sha256 from page order by sha256 desc limit 1)) as last`.execute(tx);
    const { ids, last } = rows[0] ?? { ids: [], last: null };
    const { numAffectedRows } = await sql`
      delete from blobs where id = any(${ids}::uuid[])
        and not exists (select 1 from blob_refs where blob_id = blobs.id)`.execute(tx);
    return { removed: Number(numAffectedRows ?? 0), last };
  });
}

export type RemovableRows = Readonly<{ sessions: number; events: number; blobs: number; auditEntries: number }>;

/** Counts the rows that retention would remove now. Blobs of only stale sessions count as well. */
export async function countRemovable(db: Db, before: Date): Promise<RemovableRows> {
  const { rows } = await sql<RemovableRows>`
    with stale as (select id from sessions where ${IDLE} and ${isStale(before)})
    select (select count(*) from stale) as sessions,
      (select count(*) from events join sessions s on s.id = session_id
        where events.created_at < ${before} and s.active_run_id is null and session_id not in (select id from stale)) as events,
      (select count(*) from blobs where created_at < ${before} and not exists (
        select 1 from blob_refs where blob_id = blobs.id and session_id not in (select id from stale))) as blobs,
      (select count(*) from audit_log where created_at < ${before}) as "auditEntries"`.execute(db);
  return rows[0] ?? { sessions: 0, events: 0, blobs: 0, auditEntries: 0 };
}
