import { BatonError, type ErrorRecord, toErrorRecord } from '../domain/errors.ts';
import { type FireResult, planFire } from '../domain/schedules/plan-fire.ts';
import { derivedId } from '../platform/derived-id.ts';
import { toSafeError } from '../platform/log.ts';
import {
  holdFire,
  type LockedFire,
  lockDueSchedule,
  lockSchedule,
  type NextFire,
  noteFire,
  readFireState,
  type ScheduleRow,
  setNextFire,
} from '../store/around/schedules.ts';
import type { CancelOutcome } from '../store/changes/cancels.ts';
import { inTransaction, type Tx } from '../store/db/database.ts';
import type { NewSession } from '../store/session/sessions.ts';
import { afterAccepted, afterCancelled } from './after-commit.ts';
import { type Actor, auditAct, serviceActor } from './audit.ts';
import { cancelRun, cancelRunIn } from './cancel.ts';
import { schedulePath } from './change-schedule.ts';
import { createSessionIn } from './create-session.ts';
import { withJitter } from './next-fire.ts';
import type { CommandPorts } from './ports.ts';
import { type SentMessage, sendMessageIn } from './send-message.ts';

/** The session that a fire begins, if it begins one. Made before the transaction, which must not wait for an MCP server. */
export type FireSession = Omit<NewSession, 'id'> | null;

/** The session and the message of a fire. */
type Fired = Readonly<{ sessionId: string; accepted: SentMessage }>;

/** A requested fire, with the run of another session that it has replaced. */
export type RequestedFire = Fired & Readonly<{ replaced: CancelOutcome | null }>;

/** The schedule keeps the fire as it is: a failure that passes, or the last run is awaited. */
const NOTHING = { result: null } as const;
type FireOutcome = Readonly<
  | typeof NOTHING
  | { result: Exclude<FireResult, 'fired'>; lateMs: number; error?: ErrorRecord }
  | ({ result: 'fired'; lateMs: number } & Fired)
>;

/**
 * Fires a schedule that is due. The fire, its message and the next fire are one transaction, so it happens once, whatever
 * dies.
 *
 * Locks the schedule, then its session. With `overlap: replace` it cancels the last run in a transaction before, and
 * fires when that has ended. The audit log has a cancelled run.
 * @throws BatonError that refuses the fire, as `sendMessageIn` and `createSessionIn`: nothing is written
 */
export async function fireDueSchedule(
  ports: CommandPorts,
  schedule: ScheduleRow,
  newSession: FireSession,
): Promise<void> {
  await replaceLastRun(ports, schedule);
  await tell(ports, schedule.id, await inTransaction(ports.db, (tx) => fireIn(tx, ports, schedule.id, newSession)));
}

/**
 * Notes that a due fire was refused, with the reason. The schedule goes on with the next one.
 *
 * Locks the schedule.
 */
export async function noteRefusedFire(ports: CommandPorts, scheduleId: string, refusal: BatonError): Promise<void> {
  await tell(ports, scheduleId, await inTransaction(ports.db, (tx) => noteFailure(tx, scheduleId, refusal)));
}

export type FireNow = Readonly<{ actor: Actor; scheduleId: string; newSession: FireSession }>;

/**
 * Fires a schedule now, whether or not it is paused or due, in the caller's transaction; its next fire stays. After the
 * commit the caller passes the result to `afterFire`.
 *
 * Locks the schedule, then its session; with `overlap: replace` that of the last run, and no other session that anybody
 * knows. The audit log has the act, and the run that it cancels.
 * @throws BatonError `not_found`, `session_busy` (its last run is active, and `overlap` is `skip`); errors of a message
 */
export async function fireScheduleNowIn(
  tx: Tx,
  ports: CommandPorts,
  { actor, scheduleId, newSession }: FireNow,
): Promise<RequestedFire> {
  const schedule = await lockSchedule(tx, actor.tenantId, scheduleId);
  const { nowMs: fireAtMs, isBusy } = await readFireState(tx, schedule);
  const { overlap, next_fire_at: fireAt, due_at: dueAt } = schedule;
  if (isBusy && overlap === 'skip') throw new BatonError('session_busy', 'the last run of the schedule is at work');
  const lastRunId = isBusy ? replacedBy(schedule) : null;
  const replaced = lastRunId === null ? null : await cancelRunIn(tx, { actor, runId: lastRunId });
  const fire = { actor, fireAtMs, newSession, replaces: overlap === 'replace' };
  const fired = await fireLocked(tx, ports, schedule, fire);
  await setNextFire(
    tx,
    scheduleId,
    fireAt === null || dueAt === null ? null : { fireAt, dueAt },
    begunBy(schedule, fired),
  );
  await auditAct(tx, actor, 'schedule:run', `${schedulePath(scheduleId)}/run`);
  return { ...fired, replaced };
}

/** After the commit of `fireScheduleNowIn`: tells readers and workers, and adds the jobs. */
export async function afterFire(
  ports: CommandPorts,
  scheduleId: string,
  { replaced, ...fired }: RequestedFire,
): Promise<void> {
  if (replaced !== null) await afterCancelled(ports, replaced);
  await tell(ports, scheduleId, { result: 'fired', lateMs: 0, ...fired });
}

/** The run that a fire replaces, where each fire has a session of its own. Null: none, or the message interrupts it. */
const replacedBy = ({ overlap, session_kind: kind, last_run_id: runId }: ScheduleRow): string | null =>
  overlap === 'replace' && kind === 'new' ? runId : null;

async function replaceLastRun(ports: CommandPorts, schedule: ScheduleRow): Promise<void> {
  const runId = replacedBy(schedule);
  if (runId === null) return;
  const { isBusy } = await inTransaction(ports.db, (tx) => readFireState(tx, schedule));
  if (isBusy) await cancelRun(ports, { actor: serviceActor(schedule.tenant_id), runId });
}

async function fireIn(tx: Tx, ports: CommandPorts, scheduleId: string, newSession: FireSession): Promise<FireOutcome> {
  const locked = await lockDueSchedule(tx, scheduleId);
  if (locked === null) return NOTHING;
  const { schedule, nowMs, isBusy } = locked;
  const plan = planOf(locked);
  if (plan.kind === 'hold') {
    await holdFire(tx, scheduleId);
    return NOTHING;
  }
  const { fireAtMs } = plan;
  const next = nextOf(schedule, plan.nextMs);
  const lateMs = nowMs - fireAtMs;
  // The run that was to be replaced is settled by its worker first; the next sweep finds it ended.
  if (plan.kind === 'replace' && schedule.session_kind === 'new' && isBusy) return NOTHING;
  if (plan.kind === 'skip' || plan.kind === 'miss') {
    const result = plan.kind === 'skip' ? 'skipped' : 'missed';
    await noteFire(tx, schedule, { fireAt: new Date(fireAtMs), result });
    await setNextFire(tx, scheduleId, next);
    return { result, lateMs };
  }
  const fire = { actor: serviceActor(schedule.tenant_id), fireAtMs, newSession, replaces: plan.kind === 'replace' };
  const fired = await fireLocked(tx, ports, schedule, fire);
  await setNextFire(tx, scheduleId, next, begunBy(schedule, fired));
  return { result: 'fired', lateMs, ...fired };
}

const begunBy = ({ session_kind: kind }: ScheduleRow, { sessionId, accepted }: Fired) => ({
  sessionId: kind === 'same' ? sessionId : null,
  runId: accepted.runId,
});

function planOf({ schedule, nowMs, unwatchedUntilMs, isBusy }: LockedFire) {
  const {
    next_fire_at: fireAt,
    due_at: dueAt,
    session_kind: sessionKind,
    overlap,
    catchup,
    is_held: wasHeld,
  } = schedule;
  return planFire({
    clock: schedule,
    fireAtMs: fireAt?.getTime() ?? nowMs,
    dueAtMs: dueAt?.getTime() ?? nowMs,
    ...{ nowMs, unwatchedUntilMs, sessionKind, overlap, catchup, isBusy, wasHeld },
  });
}

const nextOf = (schedule: ScheduleRow, nextMs: number | null): NextFire =>
  nextMs === null ? null : withJitter(schedule, nextMs);

type Fire = Readonly<{ actor: Actor; fireAtMs: number; newSession: FireSession; replaces: boolean }>;

/** The ids are made of the schedule and the fire time, so that the same fire twice is refused by its key. */
async function fireLocked(
  tx: Tx,
  ports: CommandPorts,
  schedule: ScheduleRow,
  { actor, fireAtMs, newSession, replaces }: Fire,
): Promise<Fired> {
  const { session_kind: kind, overlap } = schedule;
  const idOf = (what: string): string => derivedId('schedule', schedule.id, String(fireAtMs), what);
  const isNew = kind === 'new' || schedule.session_id === null;
  const sessionId = isNew ? idOf('session') : (schedule.session_id ?? '');
  if (isNew && newSession === null) throw new BatonError('conflict', 'the schedule has just changed');
  if (isNew && newSession !== null) await createSessionIn(tx, ports, { ...newSession, id: sessionId });
  const delivery = replaces ? 'interrupt' : overlap === 'queue' ? 'followup' : 'reject';
  const accepted = await sendMessageIn(tx, ports, {
    ...{ actor, sessionId, delivery },
    messageId: idOf('message'),
    runId: idOf('run'),
    content: [{ type: 'text', text: schedule.content }],
    sentBy: 'schedule',
  });
  const { runId } = accepted;
  const fireAt = new Date(fireAtMs);
  if (!(await noteFire(tx, schedule, { fireAt, result: 'fired', sessionId, runId }))) {
    throw new BatonError('conflict', 'the schedule has fired at this time');
  }
  return { sessionId, accepted };
}

/** A session that someone else keeps busy counts as an overlap. */
async function noteFailure(tx: Tx, scheduleId: string, cause: BatonError): Promise<FireOutcome> {
  const locked = await lockDueSchedule(tx, scheduleId);
  if (locked === null) return NOTHING;
  const plan = planOf({ ...locked, isBusy: false });
  if (plan.kind === 'hold') return NOTHING;
  const { fireAtMs, nextMs } = plan;
  const fireAt = new Date(fireAtMs);
  const isOverlap = cause.code === 'session_busy';
  const result = isOverlap ? 'skipped' : 'failed';
  const error = toErrorRecord(cause);
  await noteFire(tx, locked.schedule, { fireAt, result, ...(!isOverlap && { error }) });
  await setNextFire(tx, scheduleId, nextOf(locked.schedule, nextMs));
  return { result, lateMs: locked.nowMs - fireAtMs, ...(!isOverlap && { error }) };
}

async function tell(ports: CommandPorts, scheduleId: string, outcome: FireOutcome): Promise<void> {
  if (outcome.result === null) return;
  const { result, lateMs } = outcome;
  const error = 'error' in outcome && outcome.error !== undefined ? { error: toSafeError(toError(outcome.error)) } : {};
  ports.log(result === 'failed' ? 'warn' : 'info', { event: 'schedule_fired', scheduleId, result, lateMs, ...error });
  if (outcome.result === 'fired') await afterAccepted(ports, outcome.sessionId, outcome.accepted);
}

const toError = ({ code, message }: ErrorRecord): BatonError => new BatonError(code, message);
