import { type AgentCatalogue, agentVersion } from '../agents/agent.ts';
import { afterAccepted } from '../commands/after-commit.ts';
import { serviceActor } from '../commands/audit.ts';
import { cancelRun } from '../commands/cancel.ts';
import { createSessionIn } from '../commands/create-session.ts';
import type { CommandPorts } from '../commands/ports.ts';
import { type SentMessage, sendMessageIn } from '../commands/send-message.ts';
import { BatonError, type ErrorRecord, toErrorRecord } from '../domain/errors.ts';
import { type FireResult, planFire } from '../domain/schedules/plan-fire.ts';
import { PIN_WITHIN_MS } from '../domain/tunables.ts';
import { type ModelCheck, refuseUnusableModels } from '../model/configured-models.ts';
import { derivedId } from '../platform/derived-id.ts';
import { toSafeError } from '../platform/log.ts';
import {
  findSchedule,
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
import { inTransaction, type Tx } from '../store/db/database.ts';
import { isStoreUnavailable } from '../store/db/store-unavailable.ts';
import type { NewSession } from '../store/session/sessions.ts';
import type { McpServers } from '../tools/mcp/mcp-servers.ts';
import { withJitter } from './next-fire.ts';

export type FireDeps = CommandPorts &
  Readonly<{
    agents: AgentCatalogue;
    modelCheck: ModelCheck;
    pinTools: McpServers['pin'];
  }>;

/** The schedule keeps the fire as it is: a failure that passes, or the last run is awaited. */
const NOTHING = { result: null } as const;
type Outcome = Readonly<
  | typeof NOTHING
  | { result: Exclude<FireResult, 'fired'>; lateMs: number; error?: ErrorRecord }
  | ({ result: 'fired'; lateMs: number } & Fired)
>;

export type Fired = Readonly<{ sessionId: string; accepted: SentMessage }>;

/** What a fire needs before its transaction, which must not wait for an MCP server. */
export type ReadyFire = Readonly<{ newSession: Omit<NewSession, 'id'> | null } | { refusal: BatonError }>;

/** @throws errors of an unavailable Postgres, and of the signal */
export async function readyFire(deps: FireDeps, schedule: ScheduleRow, signal: AbortSignal): Promise<ReadyFire> {
  try {
    return {
      newSession: schedule.session_id === null ? await newSession(deps, schedule, signal, PIN_WITHIN_MS) : null,
    };
  } catch (error) {
    if (!(error instanceof BatonError) || isStoreUnavailable(error)) throw error;
    return { refusal: error };
  }
}

/**
 * Fires a schedule that is due. The fire, its message and the next fire are one transaction under the schedule's lock,
 * so it happens once, whatever dies. A fire that is refused is noted with the reason, and the schedule goes on.
 * @throws errors of an unavailable Postgres: the fire stays due
 */
export async function fireDue(deps: FireDeps, schedule: ScheduleRow, ready: ReadyFire): Promise<void> {
  const refuse = (refusal: BatonError) => inTransaction(deps.db, (tx) => noteFailure(tx, schedule.id, refusal));
  const fire = (): Promise<Outcome> =>
    'refusal' in ready ? refuse(ready.refusal) : tryToFire(deps, schedule, ready.newSession);
  const outcome = await fire().catch((error: unknown) => {
    if (!(error instanceof BatonError) || isStoreUnavailable(error)) throw error;
    return refuse(error);
  });
  if (outcome.result !== null) await tell(deps, schedule.id, outcome);
}

async function tryToFire(
  deps: FireDeps,
  schedule: ScheduleRow,
  newSession: Omit<NewSession, 'id'> | null,
): Promise<Outcome> {
  await replaceLast(deps, schedule);
  return inTransaction(deps.db, async (tx) => {
    const locked = await lockDueSchedule(tx, schedule.id);
    if (locked === null) return NOTHING;
    const plan = planOf(locked);
    if (plan.kind === 'hold') {
      await holdFire(tx, schedule.id);
      return NOTHING;
    }
    const { fireAtMs } = plan;
    const next = nextOf(locked.schedule, plan.nextMs);
    const lateMs = locked.nowMs - fireAtMs;
    // The run that was to be replaced is settled by its worker first; the next sweep finds it ended.
    if (plan.kind === 'replace' && locked.schedule.session_kind === 'new' && locked.isBusy) return NOTHING;
    if (plan.kind === 'skip' || plan.kind === 'miss') {
      const result = plan.kind === 'skip' ? 'skipped' : 'missed';
      await noteFire(tx, locked.schedule, { fireAt: new Date(fireAtMs), result });
      await setNextFire(tx, schedule.id, next);
      return { result, lateMs };
    }
    const fired = await fireLocked(tx, deps, locked.schedule, {
      fireAtMs,
      newSession,
      replaces: plan.kind === 'replace',
    });
    const { sessionId, accepted } = fired;
    await setNextFire(tx, schedule.id, next, {
      sessionId: keptSession(locked.schedule, sessionId),
      runId: accepted.runId,
    });
    return { result: 'fired', lateMs, ...fired };
  });
}

/** Values that a requested fire needs before its transaction. */
export type PreparedFire = Readonly<{ tenantId: string; id: string; newSession: Omit<NewSession, 'id'> | null }>;

/** @throws BatonError `not_found`, `agent_not_found`, `tools_unavailable` */
export async function prepareFire(
  deps: FireDeps,
  tenantId: string,
  id: string,
  signal: AbortSignal,
): Promise<PreparedFire> {
  const schedule = await findSchedule(deps.db, tenantId, id);
  return { tenantId, id, newSession: schedule.session_id === null ? await newSession(deps, schedule, signal) : null };
}

/**
 * Fires a schedule now, whether or not it is paused or due; its next fire stays.
 * @throws BatonError `not_found`, `session_busy` (its last run is active, and `overlap` is `skip`); errors of a message
 */
export async function fireNow(tx: Tx, deps: FireDeps, { tenantId, id, newSession }: PreparedFire): Promise<Fired> {
  const schedule = await lockSchedule(tx, tenantId, id);
  const { nowMs: fireAtMs, isBusy } = await readFireState(tx, schedule);
  if (isBusy && schedule.overlap === 'skip') {
    throw new BatonError('session_busy', 'the last run of the schedule is at work');
  }
  const fired = await fireLocked(tx, deps, schedule, {
    fireAtMs,
    newSession,
    replaces: schedule.overlap === 'replace',
  });
  const { next_fire_at: fireAt, due_at: dueAt } = schedule;
  const next = fireAt === null || dueAt === null ? null : { fireAt, dueAt };
  const firedRun = { sessionId: keptSession(schedule, fired.sessionId), runId: fired.accepted.runId };
  await setNextFire(tx, id, next, firedRun);
  return fired;
}

/** After the commit of `fireNow`: tells readers and workers, and adds the job. */
export const afterFire = (deps: FireDeps, id: string, fired: Fired): Promise<void> =>
  tell(deps, id, { result: 'fired', lateMs: 0, ...fired });

const keptSession = ({ session_kind: kind }: ScheduleRow, sessionId: string): string | null =>
  kind === 'same' ? sessionId : null;

/** @param pinWithinMs time for each MCP server; absent: as long as a request takes */
async function newSession(
  deps: FireDeps,
  schedule: ScheduleRow,
  signal: AbortSignal,
  pinWithinMs?: number,
): Promise<Omit<NewSession, 'id'>> {
  const agents = await deps.agents.current();
  const agent = agents.get(schedule.agent_name);
  refuseUnusableModels(agent, agents, deps.modelCheck);
  return {
    tenantId: schedule.tenant_id,
    agentName: agent.name,
    agentVersion: agentVersion(agent),
    agentSnapshot: await deps.pinTools(agent, signal, pinWithinMs),
    title: schedule.title,
    metadata: {},
  };
}

/**
 * Cancels the last run for a fire that replaces it, where each fire has a session of its own: in a transaction before
 * that of the fire, because none locks two sessions.
 */
async function replaceLast(deps: FireDeps, schedule: ScheduleRow): Promise<void> {
  const { overlap, session_kind: kind, last_run_id: runId, tenant_id: tenantId } = schedule;
  if (overlap !== 'replace' || kind !== 'new' || runId === null) return;
  const { isBusy } = await inTransaction(deps.db, (tx) => readFireState(tx, schedule));
  if (isBusy) await cancelRun(deps, { actor: serviceActor(tenantId), runId });
}

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

const nextOf = ({ id, jitter_ms: jitterMs }: ScheduleRow, nextMs: number | null): NextFire =>
  nextMs === null ? null : withJitter(id, { jitterMs }, nextMs);

type Fire = Readonly<{ fireAtMs: number; newSession: Omit<NewSession, 'id'> | null; replaces: boolean }>;

/** The ids are made of the schedule and the fire time, so that the same fire twice is refused by its key. */
async function fireLocked(tx: Tx, deps: FireDeps, schedule: ScheduleRow, { fireAtMs, newSession, replaces }: Fire) {
  const { tenant_id: tenantId, session_kind: kind, overlap } = schedule;
  const idOf = (what: string): string => derivedId('schedule', schedule.id, String(fireAtMs), what);
  const isNew = kind === 'new' || schedule.session_id === null;
  const sessionId = isNew ? idOf('session') : (schedule.session_id ?? '');
  if (isNew && newSession === null) throw new BatonError('conflict', 'the schedule has just changed');
  if (isNew && newSession !== null) await createSessionIn(tx, deps, { ...newSession, id: sessionId });
  const delivery = replaces ? 'interrupt' : overlap === 'queue' ? 'followup' : 'reject';
  const accepted = await sendMessageIn(tx, deps, {
    ...{ actor: serviceActor(tenantId), sessionId, delivery },
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
async function noteFailure(tx: Tx, id: string, cause: BatonError): Promise<Outcome> {
  const locked = await lockDueSchedule(tx, id);
  if (locked === null) return NOTHING;
  const plan = planOf({ ...locked, isBusy: false });
  if (plan.kind === 'hold') return NOTHING;
  const { fireAtMs, nextMs } = plan;
  const fireAt = new Date(fireAtMs);
  const isOverlap = cause.code === 'session_busy';
  const result = isOverlap ? 'skipped' : 'failed';
  const error = toErrorRecord(cause);
  await noteFire(tx, locked.schedule, { fireAt, result, ...(!isOverlap && { error }) });
  await setNextFire(tx, id, nextOf(locked.schedule, nextMs));
  return { result, lateMs: locked.nowMs - fireAtMs, ...(!isOverlap && { error }) };
}

async function tell(deps: FireDeps, scheduleId: string, outcome: Exclude<Outcome, typeof NOTHING>): Promise<void> {
  const { result, lateMs } = outcome;
  const error = 'error' in outcome && outcome.error !== undefined ? { error: toSafeError(toError(outcome.error)) } : {};
  deps.log(result === 'failed' ? 'warn' : 'info', { event: 'schedule_fired', scheduleId, result, lateMs, ...error });
  if (outcome.result !== 'fired') return;
  await afterAccepted(deps, outcome.sessionId, outcome.accepted);
}

const toError = ({ code, message }: ErrorRecord): BatonError => new BatonError(code, message);
