import { type Insertable, type Selectable, sql } from 'kysely';
import { BatonError, type ErrorRecord } from '../../domain/errors.ts';
import { formatId } from '../../domain/ids.ts';
import { ACTIVE_RUN_STATUSES } from '../../domain/run/run.ts';
import { type FireResult, MAX_KEPT_FIRES, MAX_SCHEDULES_PER_TENANT } from '../../domain/schedules/plan-fire.ts';
import { SCHEDULE_LOOK_NOTED_EVERY_MS, SCHEDULES_UNWATCHED_AFTER_MS } from '../../domain/tunables.ts';
import type { Db, Tx } from '../db/database.ts';
import { toJson } from '../db/json.ts';
import type { Tables } from '../db/tables.ts';
import { lockKey } from './idempotency.ts';

export type ScheduleRow = Selectable<Tables['schedules']>;
export type FireRow = Selectable<Tables['schedule_fires']>;

/** The next fire of a schedule; null: it never fires again. `dueAt`: with jitter. */
export type NextFire = Readonly<{ fireAt: Date; dueAt: Date }> | null;

/** Columns that the service sets itself. */
type OwnColumn =
  | 'id'
  | 'tenant_id'
  | 'key'
  | 'declared_by'
  | 'paused_reason'
  | 'next_fire_at'
  | 'due_at'
  | 'is_held'
  | 'session_id'
  | 'last_run_id'
  | 'created_at'
  | 'updated_at';

/** The columns that a caller sets. */
export type ScheduleColumns = Readonly<Omit<Insertable<Tables['schedules']>, OwnColumn>>;

export type NewSchedule = ScheduleColumns &
  Readonly<{ id: string; tenantId: string; next: NextFire; key?: string | undefined; declaredBy?: string | null }>;

const toTimes = (next: NextFire) => ({
  next_fire_at: next?.fireAt ?? null,
  due_at: next?.dueAt ?? null,
  is_held: false,
});

/** @throws BatonError `conflict` if the tenant already has the maximum number of schedules */
export async function createSchedule(
  tx: Tx,
  { id, tenantId, next, key, declaredBy = null, ...columns }: NewSchedule,
): Promise<ScheduleRow> {
  await lockSchedules(tx, tenantId);
  const { count } = await tx
    .selectFrom('schedules')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('tenant_id', '=', tenantId)
    .executeTakeFirstOrThrow();
  if (count >= MAX_SCHEDULES_PER_TENANT) {
    throw new BatonError('conflict', `at most ${MAX_SCHEDULES_PER_TENANT} schedules: delete one that is not needed`);
  }
  return tx
    .insertInto('schedules')
    .values({ id, tenant_id: tenantId, key: key ?? null, declared_by: declaredBy, ...columns, ...toTimes(next) })
    .returningAll()
    .executeTakeFirstOrThrow();
}

/** Locks the tenant's list of schedules, so that no other transaction adds one of the same key. */
export const lockSchedules = (tx: Tx, tenantId: string): Promise<void> => lockKey(tx, `schedules ${tenantId}`);

/** Null: no schedule of the tenant has the key. */
export async function findScheduleByKey(db: Db | Tx, tenantId: string, key: string): Promise<ScheduleRow | null> {
  const row = await db
    .selectFrom('schedules')
    .selectAll()
    .where('tenant_id', '=', tenantId)
    .where('key', '=', key)
    .executeTakeFirst();
  return row ?? null;
}

/**
 * Locks the schedules that fire and that `declaredBy` has declared, but for those with these keys, against their fires. Of
 * two that start at once, the second finds those that the first has not paused.
 */
export async function lockUndeclaredSchedules(
  tx: Tx,
  tenantId: string,
  { declaredBy, keys }: Readonly<{ declaredBy: string; keys: readonly string[] }>,
): Promise<ScheduleRow[]> {
  return tx
    .selectFrom('schedules')
    .selectAll()
    .where('tenant_id', '=', tenantId)
    .where('declared_by', '=', declaredBy)
    .where('paused_reason', 'is', null)
    .where(sql<boolean>`key <> all(${[...keys]}::text[])`)
    .orderBy('id')
    .forUpdate()
    .execute();
}

/** Newest first. They are few: see `MAX_SCHEDULES_PER_TENANT`. */
export async function listSchedules(db: Db, tenantId: string): Promise<ScheduleRow[]> {
  return db
    .selectFrom('schedules')
    .selectAll()
    .where('tenant_id', '=', tenantId)
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .execute();
}

/** @throws BatonError `not_found` */
export async function findSchedule(db: Db | Tx, tenantId: string, id: string): Promise<ScheduleRow> {
  const row = await db
    .selectFrom('schedules')
    .selectAll()
    .where('tenant_id', '=', tenantId)
    .where('id', '=', id)
    .executeTakeFirst();
  return row ?? refuseUnknown(id);
}

/** Locks a schedule against its fires. @throws BatonError `not_found` */
export async function lockSchedule(tx: Tx, tenantId: string, id: string): Promise<ScheduleRow> {
  const row = await tx
    .selectFrom('schedules')
    .selectAll()
    .where('tenant_id', '=', tenantId)
    .where('id', '=', id)
    .forUpdate()
    .executeTakeFirst();
  return row ?? refuseUnknown(id);
}

/** Replaces the columns of a locked schedule that callers set. */
export async function changeSchedule(
  tx: Tx,
  tenantId: string,
  id: string,
  { columns, next, put }: Readonly<{ columns: ScheduleColumns; next: NextFire; put?: PutColumns }>,
): Promise<ScheduleRow> {
  return update(tx, tenantId, id, { ...columns, ...toTimes(next), ...put });
}

/** Columns that a put of a key sets, too. */
type PutColumns = Readonly<{ declared_by: string | null; paused_reason: string | null }>;

/** Pauses a locked schedule, or lets it fire again. */
export async function pauseSchedule(
  tx: Tx,
  tenantId: string,
  id: string,
  { reason, next }: Readonly<{ reason: string | null; next: NextFire }>,
): Promise<ScheduleRow> {
  return update(tx, tenantId, id, { paused_reason: reason, ...toTimes(next) });
}

async function update(tx: Tx, tenantId: string, id: string, columns: object): Promise<ScheduleRow> {
  const row = await tx
    .updateTable('schedules')
    .set({ ...columns, updated_at: sql`clock_timestamp()` })
    .where('tenant_id', '=', tenantId)
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirst();
  return row ?? refuseUnknown(id);
}

/** Removes a schedule with the list of its fires. Their sessions stay. @throws BatonError `not_found` */
export async function deleteSchedule(tx: Tx, tenantId: string, id: string): Promise<void> {
  const gone = await tx
    .deleteFrom('schedules')
    .where('tenant_id', '=', tenantId)
    .where('id', '=', id)
    .returning('id')
    .executeTakeFirst();
  if (gone === undefined) refuseUnknown(id);
}

/** Notes that a worker looks at schedules, and how long none did before. */
export async function noteScheduleLook(db: Db): Promise<void> {
  await sql`
    insert into schedule_looks as looks default values on conflict (is_only) do update
    set looked_at = clock_timestamp(), unwatched_until = case
      when looks.looked_at < clock_timestamp() - make_interval(secs => ${SCHEDULES_UNWATCHED_AFTER_MS / 1000})
      then clock_timestamp() else looks.unwatched_until end
    where looks.looked_at < clock_timestamp() - make_interval(secs => ${SCHEDULE_LOOK_NOTED_EVERY_MS / 1000})`.execute(
    db,
  );
}

export type DueFilter = Readonly<{ limit: number; perTenant: number; inHand: readonly string[] }>;

/** Schedules that are due, of each tenant the longest overdue, and the tenants in turn. `inHand`: the ids to leave out. */
export async function findDueSchedules(db: Db, { limit, perTenant, inHand }: DueFilter): Promise<ScheduleRow[]> {
  const { rows } = await sql<ScheduleRow>`
    with recursive now as materialized (select clock_timestamp() as at), tenants as (
      (select tenant_id as id from schedules where paused_reason is null and due_at is not null
        order by tenant_id limit 1)
      union all
      select (select tenant_id from schedules where paused_reason is null and due_at is not null
        and tenant_id > tenants.id order by tenant_id limit 1) from tenants where tenants.id is not null
    )
    select due.* from tenants cross join lateral (
      select longest.*, row_number() over (order by due_at) as nth from (
        select * from schedules where paused_reason is null and tenant_id = tenants.id
          and due_at <= (select at from now) and id <> all(${[...inHand]}::uuid[])
        order by due_at limit ${sql.lit(perTenant)}
      ) as longest
    ) as due
    order by due.nth, due.due_at limit ${limit}`.execute(db);
  return rows;
}

/** Times by the clock of Postgres. `isBusy`: its last run has not ended. `unwatchedUntilMs`: see `planFire`. */
export type LockedFire = Readonly<{
  schedule: ScheduleRow;
  nowMs: number;
  unwatchedUntilMs: number;
  isBusy: boolean;
}>;
type FireState = Omit<LockedFire, 'schedule'>;

/** Locks a schedule for a fire. Null: another process has it, or it is no longer due. */
export async function lockDueSchedule(tx: Tx, id: string): Promise<LockedFire | null> {
  const schedule = await tx
    .selectFrom('schedules')
    .selectAll()
    .where('id', '=', id)
    .where('paused_reason', 'is', null)
    .where('due_at', '<=', sql<Date>`clock_timestamp()`)
    .forUpdate()
    .skipLocked()
    .executeTakeFirst();
  return schedule === undefined ? null : { schedule, ...(await readFireState(tx, schedule)) };
}

/**
 * The time by the clock of Postgres, in milliseconds since the Unix epoch. The fires of schedules are computed by it,
 * because the workers find them by it.
 */
export async function readClock(db: Db | Tx): Promise<number> {
  const { rows } = await sql<{ nowMs: number }>`select ${CLOCK_MS} as "nowMs"`.execute(db);
  return rows[0]?.nowMs ?? 0;
}

const CLOCK_MS = sql`floor(extract(epoch from clock_timestamp()) * 1000)::float8`;

/** @returns the time of Postgres, until when no worker looked, and whether the last run of the schedule is active */
export async function readFireState(
  tx: Tx,
  { last_run_id: runId }: Pick<ScheduleRow, 'last_run_id'>,
): Promise<FireState> {
  const { rows } = await sql<FireState>`
    select ${CLOCK_MS} as "nowMs",
      coalesce((select extract(epoch from unwatched_until) * 1000 from schedule_looks), 0)::float8 as "unwatchedUntilMs",
      exists (select 1 from runs where id = ${runId} and status = any(${[...ACTIVE_RUN_STATUSES]})) as "isBusy"`.execute(
    tx,
  );
  return rows[0] ?? { nowMs: 0, unwatchedUntilMs: 0, isBusy: false };
}

export type Fired = Readonly<{
  fireAt: Date;
  result: FireResult;
  sessionId?: string;
  runId?: string;
  error?: ErrorRecord;
}>;

/** Notes a fire. False: it was noted before. */
export async function noteFire(tx: Tx, { id, tenant_id }: ScheduleRow, fired: Fired): Promise<boolean> {
  const inserted = await tx
    .insertInto('schedule_fires')
    .values({
      schedule_id: id,
      tenant_id,
      fire_at: fired.fireAt,
      result: fired.result,
      session_id: fired.sessionId ?? null,
      run_id: fired.runId ?? null,
      error: fired.error === undefined ? null : toJson(fired.error),
    })
    .onConflict((conflict) => conflict.doNothing())
    .returning('fire_at')
    .executeTakeFirst();
  await sql`
    delete from schedule_fires where (schedule_id, fire_at) in (
      select schedule_id, fire_at from schedule_fires where schedule_id = ${id}
      order by fire_at desc offset ${MAX_KEPT_FIRES} limit 10)`.execute(tx);
  return inserted !== undefined;
}

/** Sets the next fire of a locked schedule, and the session and run that the fire before it has begun. */
export async function setNextFire(
  tx: Tx,
  id: string,
  next: NextFire,
  begun: Readonly<{ sessionId?: string | null; runId?: string }> = {},
): Promise<void> {
  await tx
    .updateTable('schedules')
    .set({
      ...toTimes(next),
      ...(begun.sessionId !== undefined && { session_id: begun.sessionId }),
      ...(begun.runId !== undefined && { last_run_id: begun.runId }),
    })
    .where('id', '=', id)
    .execute();
}

/** The fire stays due: its schedule waits for the last run. */
export async function holdFire(tx: Tx, id: string): Promise<void> {
  await tx.updateTable('schedules').set({ is_held: true }).where('id', '=', id).where('is_held', '=', false).execute();
}

/** Newest first. */
export async function listFires(
  db: Db,
  filter: Readonly<{ tenantId: string; scheduleId: string; limit: number; before?: Date | undefined }>,
): Promise<FireRow[]> {
  let query = db
    .selectFrom('schedule_fires')
    .selectAll()
    .where('tenant_id', '=', filter.tenantId)
    .where('schedule_id', '=', filter.scheduleId);
  if (filter.before !== undefined) query = query.where('fire_at', '<', filter.before);
  return query.orderBy('fire_at', 'desc').limit(filter.limit).execute();
}

function refuseUnknown(id: string): never {
  throw new BatonError('not_found', `schedule ${formatId('schedule', id)} does not exist`);
}
