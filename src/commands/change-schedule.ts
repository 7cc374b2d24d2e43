import { formatId } from '../domain/ids.ts';
import {
  changeSchedule as change,
  createSchedule,
  lockSchedule,
  pauseSchedule,
  readClock,
  deleteSchedule as remove,
  type ScheduleColumns,
  type ScheduleRow,
} from '../store/around/schedules.ts';
import { inTransaction, type Tx } from '../store/db/database.ts';
import { type Actor, auditAct } from './audit.ts';
import { nextFireAfter } from './next-fire.ts';
import type { CommandPorts } from './ports.ts';

type OfSchedule = Readonly<{ actor: Actor; scheduleId: string }>;
type Ports = Pick<CommandPorts, 'db'>;
type NewSchedule = Readonly<{ actor: Actor; columns: ScheduleColumns; key?: string; declaredBy?: string | null }>;

export const schedulePath = (scheduleId: string): string => `/v1/schedules/${formatId('schedule', scheduleId)}`;

/**
 * Creates a schedule, in the caller's transaction. Workers find its fires by the clock of Postgres. The caller has
 * checked its times and the name of the agent.
 *
 * Locks the tenant's list of schedules. The audit log has the act.
 * @throws BatonError `conflict` (the tenant has as many as it may)
 */
export async function createScheduleIn(
  tx: Tx,
  { newId }: Pick<CommandPorts, 'newId'>,
  { actor, columns, key, declaredBy = null }: NewSchedule,
): Promise<ScheduleRow> {
  const id = newId();
  const next = nextFireAfter(id, columns, await readClock(tx));
  const row = await createSchedule(tx, { ...columns, id, tenantId: actor.tenantId, next, key, declaredBy });
  await auditAct(tx, actor, 'schedule:create', schedulePath(id));
  return row;
}

/**
 * Changes a schedule. Fires that were due before are forgotten.
 *
 * Locks the schedule against its fires. The audit log has the act.
 * @param next derives the new columns from the present ones. `nowMs`: by the clock of Postgres
 * @throws BatonError `not_found`; errors of `next`
 */
export function changeSchedule(
  { db }: Ports,
  { actor, scheduleId }: OfSchedule,
  next: (row: ScheduleRow, nowMs: number) => Promise<ScheduleColumns>,
): Promise<ScheduleRow> {
  return inTransaction(db, async (tx) => {
    const row = await lockSchedule(tx, actor.tenantId, scheduleId);
    const nowMs = await readClock(tx);
    const columns = await next(row, nowMs);
    await auditAct(tx, actor, 'schedule:update', schedulePath(scheduleId));
    return change(tx, actor.tenantId, scheduleId, { columns, next: nextFireAfter(scheduleId, columns, nowMs) });
  });
}

/**
 * Pauses a schedule, or lets it fire again from now on.
 *
 * Locks the schedule against its fires. The audit log has the act.
 * @param request.reason Null: it fires again
 * @throws BatonError `not_found`
 */
export function setSchedulePaused(
  { db }: Ports,
  { actor, scheduleId, reason }: OfSchedule & Readonly<{ reason: string | null }>,
): Promise<ScheduleRow> {
  const act = reason === null ? 'resume' : 'pause';
  return inTransaction(db, async (tx) => {
    const row = await lockSchedule(tx, actor.tenantId, scheduleId);
    await auditAct(tx, actor, `schedule:${act}`, `${schedulePath(scheduleId)}/${act}`);
    const next = nextFireAfter(scheduleId, row, await readClock(tx));
    return pauseSchedule(tx, actor.tenantId, scheduleId, { reason, next });
  });
}

/**
 * Deletes a schedule with the list of its fires. The sessions that it has begun stay.
 *
 * Locks the schedule. The audit log has the act.
 * @throws BatonError `not_found`
 */
export async function deleteSchedule({ db }: Ports, { actor, scheduleId }: OfSchedule): Promise<void> {
  await inTransaction(db, async (tx) => {
    await remove(tx, actor.tenantId, scheduleId);
    await auditAct(tx, actor, 'schedule:delete', schedulePath(scheduleId));
  });
}
