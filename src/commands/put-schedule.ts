import { NO_LONGER_DECLARED } from '../domain/declared.ts';
import {
  changeSchedule,
  findScheduleByKey,
  lockSchedule,
  lockSchedules,
  lockUndeclaredSchedules,
  pauseSchedule,
  readClock,
  type ScheduleColumns,
  type ScheduleRow,
} from '../store/around/schedules.ts';
import { inTransaction, type Tx } from '../store/db/database.ts';
import { type Actor, auditAct } from './audit.ts';
import { createScheduleIn, schedulePath } from './change-schedule.ts';
import { nextFireAfter } from './next-fire.ts';
import type { CommandPorts } from './ports.ts';
import type { DeclaredKeys, Put } from './put-webhook.ts';

type Ports = Pick<CommandPorts, 'db' | 'newId'>;

export type PutSchedule = Readonly<{
  actor: Actor;
  key: string;
  columns: ScheduleColumns;
  /** The program that declares it, or `files`. Null: it is put by hand. */
  declaredBy: string | null;
}>;

/**
 * Creates or changes the schedule of a key, so that it has these settings. An equal one stays as it is, without an update
 * or an entry in the audit log. A pause stays, but for that of one that was no longer declared. The caller has checked
 * its times and the name of the agent.
 *
 * Locks the tenant's list of schedules, then the schedule, unless nothing changes: of any number of puts at once one
 * creates it.
 * @throws BatonError `conflict` (the tenant has as many as it may)
 */
export async function putSchedule(ports: Ports, put: PutSchedule): Promise<Put<ScheduleRow>> {
  const present = await findScheduleByKey(ports.db, put.actor.tenantId, put.key);
  if (present !== null && isEqual(present, put)) return { row: present, change: 'none' };
  return inTransaction(ports.db, (tx) => putIn(tx, ports, put));
}

async function putIn(tx: Tx, ports: Ports, put: PutSchedule): Promise<Put<ScheduleRow>> {
  const { actor, key, columns, declaredBy } = put;
  const { tenantId } = actor;
  await lockSchedules(tx, tenantId);
  const present = await findScheduleByKey(tx, tenantId, key);
  if (present === null) return { row: await createScheduleIn(tx, ports, put), change: 'created' };
  const locked = await lockSchedule(tx, tenantId, present.id);
  if (isEqual(locked, put)) return { row: locked, change: 'none' };
  const next = nextFireAfter(locked.id, columns, await readClock(tx));
  const pausedReason = isUndeclared(locked) ? null : locked.paused_reason;
  const ofPut = { declared_by: declaredBy, paused_reason: pausedReason };
  const row = await changeSchedule(tx, tenantId, locked.id, { columns, next, put: ofPut });
  await auditAct(tx, actor, 'schedule:update', schedulePath(locked.id));
  return { row, change: 'changed' };
}

function isEqual(row: ScheduleRow, { columns, declaredBy }: PutSchedule): boolean {
  const present: Readonly<Record<string, unknown>> = row;
  const isSame = Object.entries(columns).every(([name, value]) => present[name] === value);
  return isSame && row.declared_by === declaredBy && !isUndeclared(row);
}

const isUndeclared = ({ paused_reason: reason }: ScheduleRow): boolean => reason === NO_LONGER_DECLARED;

/**
 * Pauses the schedules that a program, or the files, declared before and do not any more. They stay, with their fires;
 * declaring one again lets it go on.
 *
 * Locks each of them against its fires. The audit log has each.
 * @returns their ids
 */
export function pauseUndeclaredSchedules(
  { db }: Pick<CommandPorts, 'db'>,
  { actor, ...declared }: DeclaredKeys,
): Promise<readonly string[]> {
  return inTransaction(db, async (tx) => {
    const gone = await lockUndeclaredSchedules(tx, actor.tenantId, declared);
    for (const row of gone) {
      const next = nextFireAfter(row.id, row, await readClock(tx));
      await pauseSchedule(tx, actor.tenantId, row.id, { reason: NO_LONGER_DECLARED, next });
      await auditAct(tx, actor, 'schedule:pause', `${schedulePath(row.id)}/pause`);
    }
    return gone.map(({ id }) => id);
  });
}
