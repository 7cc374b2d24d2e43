import { sql } from 'kysely';
import { z } from 'zod';
import { BatonError } from '../../domain/errors.ts';
import { formatCallId, formatId } from '../../domain/ids.ts';
import { callResultEvent } from '../../domain/run/call-events.ts';
import { problemOfReply } from '../../domain/run/call-reply.ts';
import type { NewEvent } from '../../domain/run/events.ts';
import type { JobPayload } from '../../domain/run/job.ts';
import type { RunStatus } from '../../domain/run/run.ts';
import {
  type ActionKind,
  type AskedKind,
  answerWord,
  type CallAnswer,
  type OutputAnswer,
  planAnswer,
  type RecordedAnswer,
  recordedAnswerSchema,
} from '../../domain/transcript/required-action.ts';
import { type Db, inTransaction, type Tx } from '../db/database.ts';
import { toWrittenJson } from '../db/json.ts';
import { type Child, countAsks, lockChildOf, noteAsks, stopChildren } from '../session/children.ts';
import { findRun } from '../session/runs.ts';
import { findSession, type LockedSession, lockSession } from '../session/sessions.ts';
import { resumeRun } from '../session/start-run.ts';
import { appendEvents } from '../transcript/events.ts';
import { type CallRef, callNotFound } from '../transcript/known-calls.ts';
import { keepClientFiles } from '../transcript/media.ts';
import { changeCall, countOpenCalls, isUnanswered, type OpenCall, readOpenCalls } from '../transcript/open-calls.ts';
import { tellAsksAt } from './root-asks.ts';

export type AnsweredCall = Readonly<{
  kind: AskedKind;
  /** Calls that still require an action after this answer. With 0 the run goes on. */
  open: number;
  sessionId: string;
  eventSeq: number;
  /** The job to enqueue. Null: the run still waits. */
  job: JobPayload | null;
  /** The session at the root of the tree, where people look, and its last event. Null: the call is of a root. */
  root: Readonly<{ sessionId: string; eventSeq: number }> | null;
}>;

/**
 * Stores an answer to a required action of the run, or of a run below it, and its files as blobs. The last answer makes
 * the step pending again; the same answer again changes nothing and gets the same result. The root of the tree knows of
 * the answer in the same transaction, so that it does not ask any more.
 * @throws BatonError `not_found`; `already_answered` (with another answer, or it has expired); `conflict` (the call
 * requires no action, or not any more); `invalid_request` (the answer does not fit the action, or a file is invalid)
 */
export function answerCall(db: Db | Tx, asked: CallRef, said: CallAnswer): Promise<AnsweredCall> {
  return inTransaction(db, async (tx) => {
    const ref = await findCallBelow(tx, asked);
    const { session_id: sessionId } = await findRun(tx, ref.tenantId, ref.runId);
    const { session, root } = await lockWithRoot(tx, ref.tenantId, sessionId);
    const status = await lockRun(tx, ref.runId);
    const name = `call ${formatCallId(ref.messageId, ref.index)}`;
    const [given = said] = await keepClientFiles(tx, { tenantId: ref.tenantId, sessionId }, [said]);
    const call = await findCallState(tx, sessionId, ref, given);
    if (call === null) throw callNotFound(ref);
    const { requiredAction: kind, answer, isSame } = call;
    if (kind === null || kind === 'child') throw childOrNone(name, kind);
    if (answer !== null && isSame) {
      const atRoot = root === null ? null : { sessionId: root.id, eventSeq: root.event_seq };
      return { kind, open: answer.open, sessionId, eventSeq: session.event_seq, job: null, root: atRoot };
    }
    if (answer !== null) throw new BatonError('already_answered', `${name} has another answer`);
    const open = status === 'requires_action' ? (await readOpenCalls(tx, [ref.runId])).filter(isUnanswered) : [];
    const own = open.find(({ messageId, index }) => messageId === ref.messageId && index === ref.index);
    if (own === undefined) throw new BatonError('conflict', `${name} waits for nothing any more`);
    const taken = await take(tx, session, { own, open, given });
    return { kind, ...taken, root: root === null ? null : await tellRootOf(tx, ref.runId, root) };
  });
}

/** The root is locked first, by every transaction that locks both. */
async function lockWithRoot(
  tx: Tx,
  tenantId: string,
  sessionId: string,
): Promise<Readonly<{ session: LockedSession; root: LockedSession | null }>> {
  const { root_session_id: rootId } = await findSession(tx, tenantId, sessionId);
  const root = rootId === null ? null : await lockSession(tx, tenantId, rootId);
  return { session: await lockSession(tx, tenantId, sessionId), root };
}

/** Tells the root which calls of the run below it still wait. */
async function tellRootOf(
  tx: Tx,
  runId: string,
  root: LockedSession,
): Promise<Readonly<{ sessionId: string; eventSeq: number }>> {
  const child = await lockChildOf(tx, runId);
  const eventSeq = child === null ? null : await tellAsksAt(tx, child, root);
  return { sessionId: root.id, eventSeq: eventSeq ?? root.event_seq };
}

/** Stores the answer to one of the open calls of a waiting run. */
async function take(
  tx: Tx,
  { id: sessionId, parent_session_id: parent }: LockedSession,
  { own, open, given }: Readonly<{ own: CallWithAction; open: readonly OpenCall[]; given: CallAnswer }>,
): Promise<Omit<AnsweredCall, 'kind' | 'root'>> {
  const { runId } = own;
  const asked = open.filter((each) => each !== own && each.requiredAction !== 'child').length;
  const events = await record(tx, own, given, asked);
  const job = open.length === 1 ? await resumeRun(tx, sessionId, runId) : null;
  if (job === null && asked === 0) await delegate(tx, sessionId, runId);
  if (parent !== null) await noteAsks(tx, runId, asked);
  return { open: asked, sessionId, eventSeq: await appendEvents(tx, sessionId, runId, events), job };
}

type CallWithAction = OpenCall & Readonly<{ requiredAction: ActionKind }>;

const childOrNone = (name: string, kind: 'child' | null): BatonError =>
  kind === null
    ? new BatonError('conflict', `${name} waits for no answer`)
    : new BatonError('conflict', `${name} waits for the session that it began: answer what that asks, or cancel it`);

/** The run waits for children alone: only its deadline ends the wait, and people act only on the children's calls. */
async function delegate(tx: Tx, sessionId: string, runId: string): Promise<void> {
  const isAsked = (await countAsks(tx, sessionId)) > 0;
  await sql`
    update runs set is_delegating = ${!isAsked}, approval_expires_at = deadline_at where id = ${runId}`.execute(tx);
  await sql`update sessions set status = ${isAsked ? 'requires_action' : 'busy'} where id = ${sessionId}`.execute(tx);
}

/**
 * Answers the call of a child with its result; the last answer makes the step pending again. The caller holds the lock
 * of the parent's session.
 * @returns null: the call waits no longer
 */
export async function answerChildCall(
  tx: Tx,
  { parentSessionId, parentRunId, messageId, index }: Child,
  given: OutputAnswer,
): Promise<Readonly<{ job: JobPayload | null }> | null> {
  if ((await lockRun(tx, parentRunId)) !== 'requires_action') return null;
  const { open, openForChildren, isOwnForChild } = await countOpenCalls(tx, parentRunId, { messageId, index });
  const resolution = isOwnForChild ? planAnswer('child', given) : null;
  if (resolution === null) return null;
  const own = { sessionId: parentSessionId, messageId, index };
  await changeCall(tx, own, resolution, { given, open: open - openForChildren });
  return { job: open === 1 ? await resumeRun(tx, parentSessionId, parentRunId) : null };
}

/** @throws BatonError `invalid_request` if the answer does not fit the required action */
async function record(
  tx: Tx,
  call: OpenCall & { requiredAction: ActionKind },
  given: CallAnswer,
  open: number,
): Promise<NewEvent[]> {
  const { messageId, index, requiredAction } = call;
  const resolution = planAnswer(requiredAction, given);
  if (resolution === null) throw new BatonError('invalid_request', MISFITS[requiredAction]);
  const problem = problemOfReply(call.question, given);
  if (problem !== null) throw new BatonError('invalid_request', `the answer does not fit the question: ${problem}`);
  const { state, output, input } = resolution;
  await changeCall(tx, call, resolution, { given, open, ...(input !== undefined && { insteadOf: call.part.input }) });
  const data = {
    runId: formatId('run', call.runId),
    id: formatCallId(messageId, index),
    answer: answerWord(given),
    ...(input !== undefined && { args: input }),
    open,
  };
  const answered: NewEvent = { type: 'run:answered', data };
  if (output === undefined || (state !== 'denied' && state !== 'error')) return [answered];
  return [answered, callResultEvent(messageId, call, { state, output })];
}

const MISFITS: Readonly<Record<ActionKind, string>> = {
  approval: 'the call waits for a decision: approve or deny',
  output: 'the call is run by the client: it takes an output, or a denial',
  child: 'the call waits for the session that it began',
  input: 'the tool asks a question: it takes an output of JSON, or a denial',
  unknown_outcome: 'the call takes a decision or an output, and keeps its arguments',
};

async function lockRun(tx: Tx, runId: string): Promise<RunStatus | null> {
  const run = await tx.selectFrom('runs').select('status').where('id', '=', runId).forNoKeyUpdate().executeTakeFirst();
  return run?.status ?? null;
}

/**
 * The place of a call with the run that made it: the given run, or a run below it. Clients answer calls of a root's
 * children at the root's run.
 */
async function findCallBelow(db: Db | Tx, ref: CallRef): Promise<CallRef> {
  const { rows } = await sql<{ runId: string }>`
    select m.run_id as "runId" from runs r
      join messages m on m.id = ${ref.messageId} and m.tenant_id = r.tenant_id and m.role = 'assistant'
      join sessions s on s.id = m.session_id
    where r.id = ${ref.runId} and r.tenant_id = ${ref.tenantId} and m.run_id is not null
      and s.root_session_id = r.session_id`.execute(db);
  return { ...ref, runId: rows[0]?.runId ?? ref.runId };
}

const answeredCallSchema = z.object({ answer: recordedAnswerSchema.nullable(), isSame: z.boolean() });

/** A call of the run, with or without a required action. Null: the run has no such call. */
async function findCallState(
  tx: Tx,
  sessionId: string,
  { runId, messageId, index }: CallRef,
  given: CallAnswer,
): Promise<Readonly<{ requiredAction: ActionKind | null; answer: RecordedAnswer | null; isSame: boolean }> | null> {
  const row = await tx
    .selectFrom('messages')
    .innerJoin('parts', (of) =>
      of.onRef('parts.session_id', '=', 'messages.session_id').onRef('parts.message_id', '=', 'messages.id'),
    )
    .select(['required_action as requiredAction', 'answer'])
    .select(
      sql<boolean>`coalesce(baton_given(answer -> 'given') = baton_given(${toWrittenJson(given)}::jsonb), false)`.as(
        'isSame',
      ),
    )
    .where('messages.id', '=', messageId)
    .where('messages.run_id', '=', runId)
    .where('messages.session_id', '=', sessionId)
    .where('messages.superseded', '=', false)
    .where('parts.idx', '=', index)
    .where('parts.type', '=', 'tool')
    .executeTakeFirst();
  return row === undefined ? null : { requiredAction: row.requiredAction, ...answeredCallSchema.parse(row) };
}

export type WaitingRun = Readonly<{ id: string; sessionId: string }>;

/** Runs whose wait has ended without an answer: `approvalTimeoutMs` or the deadline has passed. */
export async function findExpiredWaits(db: Db, limit: number): Promise<WaitingRun[]> {
  const { rows } = await sql<WaitingRun>`
    select id, session_id as "sessionId" from runs
    where status = 'requires_action' and approval_expires_at < (select clock_timestamp())
    order by row_number() over (partition by tenant_id order by approval_expires_at), approval_expires_at
    limit ${limit}`.execute(db);
  return rows;
}

export type ExpiredWait = Readonly<{ expired: number; eventSeq: number; job: JobPayload | null }>;

/**
 * Answers the open calls of a run with `expired`, so that it goes on, or ends if its deadline has passed. Before its
 * deadline a run goes on waiting for its children, which have limits of their own. Null: the run waits no longer, or
 * another transaction has the session's lock.
 */
export async function expireWait(tx: Tx, { id: runId, sessionId }: WaitingRun): Promise<ExpiredWait | null> {
  const { rows: sessions } = await sql`
    select 1 from sessions where id = ${sessionId} for no key update skip locked`.execute(tx);
  if (sessions.length === 0) return null;
  const { rows } = await sql<{ expired: boolean; isOver: boolean }>`
    select status = 'requires_action' and approval_expires_at < clock_timestamp() as expired,
      coalesce(deadline_at < clock_timestamp(), false) as "isOver"
    from runs where id = ${runId} for no key update`.execute(tx);
  const [run] = rows;
  if (run?.expired !== true) return null;
  const open = (await readOpenCalls(tx, [runId])).filter(isUnanswered);
  const expiring = open.filter(({ requiredAction }) => run.isOver || requiredAction !== 'child');
  const events: NewEvent[] = [];
  for (const [index, call] of expiring.entries()) {
    events.push(...(await record(tx, call, { kind: 'expired' }, expiring.length - 1 - index)));
  }
  if (run.isOver) await stopChildren(tx, runId);
  await noteAsks(tx, runId, 0);
  const goesOn = expiring.length === open.length;
  if (!goesOn) await delegate(tx, sessionId, runId);
  const job = goesOn ? await resumeRun(tx, sessionId, runId) : null;
  return { expired: expiring.length, eventSeq: await appendEvents(tx, sessionId, runId, events), job };
}
