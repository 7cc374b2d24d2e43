import { sql } from 'kysely';
import { z } from 'zod';
import { BatonError } from '../domain/errors.ts';
import { formatCallId, formatId } from '../domain/ids.ts';
import { callResultEvent } from '../domain/run/call-events.ts';
import type { NewEvent } from '../domain/run/events.ts';
import { type JobPayload, jobPayloadSchema } from '../domain/run/job.ts';
import type { RunStatus } from '../domain/run/run.ts';
import {
  type ActionKind,
  answerWord,
  type CallAnswer,
  type OutputAnswer,
  planAnswer,
  type RecordedAnswer,
  recordedAnswerSchema,
} from '../domain/transcript/required-action.ts';
import { type Db, inTransaction, type Tx } from './database.ts';
import { appendEvents } from './events.ts';
import { toJson } from './json.ts';
import { keepGivenFiles } from './media.ts';
import { changeCall, isUnanswered, type OpenCall, readOpenCalls } from './open-calls.ts';
import { findRun } from './runs.ts';
import { lockSession } from './sessions.ts';

/** The place of a call in a run of the tenant. */
export type CallRef = Readonly<{ tenantId: string; runId: string; messageId: string; index: number }>;

export type AnsweredCall = Readonly<{
  kind: ActionKind;
  /** Calls that still require an action after this answer. With 0 the run goes on. */
  open: number;
  sessionId: string;
  eventSeq: number;
  /** To enqueue. Null: the run still waits. */
  job: JobPayload | null;
}>;

/**
 * Stores an answer to a required action, and its files as blobs. The last answer makes the step pending again; the same
 * answer again changes nothing and gets the same result.
 * @throws BatonError `not_found`; `already_answered` (with another answer, or it has expired); `conflict` (the call
 * requires no action, or not any more); `invalid_request` (the answer does not fit the action, or a file is invalid)
 */
export function answerCall(db: Db | Tx, ref: CallRef, said: CallAnswer): Promise<AnsweredCall> {
  return inTransaction(db, async (tx) => {
    const { session_id: sessionId } = await findRun(tx, ref.tenantId, ref.runId);
    const session = await lockSession(tx, ref.tenantId, sessionId);
    const status = await lockRun(tx, ref.runId);
    const name = `call ${formatCallId(ref.messageId, ref.index)}`;
    const [given = said] = await keepGivenFiles(tx, { tenantId: ref.tenantId, sessionId }, [said]);
    const call = await readAskedCall(tx, sessionId, ref, given);
    if (call === null) throw callNotFound(ref);
    const { requiredAction: kind, answer, isSame } = call;
    if (kind === null) throw new BatonError('conflict', `nobody is asked about ${name}`);
    if (answer !== null && isSame) {
      return { kind, open: answer.open, sessionId, eventSeq: session.event_seq, job: null };
    }
    if (answer !== null) throw new BatonError('already_answered', `${name} has another answer`);
    const open = status === 'requires_action' ? (await readOpenCalls(tx, [ref.runId])).filter(isUnanswered) : [];
    const own = open.find(({ messageId, index }) => messageId === ref.messageId && index === ref.index);
    if (own === undefined) throw new BatonError('conflict', `${name} waits for nothing any more`);
    const events = await record(tx, own, given, open.length - 1);
    const job = open.length === 1 ? await resumeRun(tx, sessionId, ref.runId) : null;
    return {
      kind,
      open: open.length - 1,
      sessionId,
      eventSeq: await appendEvents(tx, sessionId, ref.runId, events),
      job,
    };
  });
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
  await changeCall(tx, call, resolution, { given, open });
  const data = {
    runId: formatId('run', call.runId),
    id: formatCallId(messageId, index),
    answer: answerWord(given),
    open,
  };
  const answered: NewEvent = { type: 'run:answered', data };
  const { state, output } = resolution;
  if (output === undefined || (state !== 'denied' && state !== 'error')) return [answered];
  return [answered, callResultEvent(messageId, call, { state, output })];
}

const MISFITS: Readonly<Record<ActionKind, string>> = {
  approval: 'the call waits for a decision: approve or deny',
  output: 'the call is run by the client: it takes an output, or a denial',
  unknown_outcome: 'the call takes a decision or an output',
};

async function lockRun(tx: Tx, runId: string): Promise<RunStatus | null> {
  const run = await tx.selectFrom('runs').select('status').where('id', '=', runId).forNoKeyUpdate().executeTakeFirst();
  return run?.status ?? null;
}

/** @throws BatonError `not_found` if the run has no such call */
export async function refuseUnknownCall(db: Db, { tenantId, runId, messageId, index }: CallRef): Promise<void> {
  const call = await db
    .selectFrom('parts')
    .innerJoin('messages', 'messages.id', 'parts.message_id')
    .select('parts.idx')
    .where('parts.message_id', '=', messageId)
    .where('parts.idx', '=', index)
    .where('parts.type', '=', 'tool')
    .where('messages.run_id', '=', runId)
    .where('messages.tenant_id', '=', tenantId)
    .where('messages.superseded', '=', false)
    .executeTakeFirst();
  if (call === undefined) throw callNotFound({ runId, messageId, index });
}

const callNotFound = ({ runId, messageId, index }: Omit<CallRef, 'tenantId'>): BatonError =>
  new BatonError('not_found', `call ${formatCallId(messageId, index)} is not of run ${formatId('run', runId)}`);

const answeredCallSchema = z.object({ answer: recordedAnswerSchema.nullable(), isSame: z.boolean() });

/** A call of the run, with or without a required action. Null: the run has no such call. */
async function readAskedCall(
  tx: Tx,
  sessionId: string,
  { runId, messageId, index }: CallRef,
  given: CallAnswer,
): Promise<Readonly<{ requiredAction: ActionKind | null; answer: RecordedAnswer | null; isSame: boolean }> | null> {
  const row = await tx
    .selectFrom('messages')
    .innerJoin('parts', 'parts.message_id', 'messages.id')
    .select(['required_action as requiredAction', 'answer'])
    // Compared as `jsonb`: the order of keys does not count.
    .select(sql<boolean>`coalesce(answer -> 'given' = ${toJson(given)}::jsonb, false)`.as('isSame'))
    .where('messages.id', '=', messageId)
    .where('messages.run_id', '=', runId)
    .where('messages.session_id', '=', sessionId)
    .where('messages.superseded', '=', false)
    .where('parts.idx', '=', index)
    .where('parts.type', '=', 'tool')
    .executeTakeFirst();
  return row === undefined ? null : { requiredAction: row.requiredAction, ...answeredCallSchema.parse(row) };
}

export type TakenOutput = Readonly<{ runId: string; isSame: boolean }>;

type GivenOutput = Readonly<{ messageId: string; index: number; given: OutputAnswer }>;

/**
 * The calls to which a client has already given an output. `isSame`: this output.
 * @throws BatonError `invalid_request` (an invalid file)
 */
export async function findTakenOutputs(
  tx: Tx,
  owner: Readonly<{ tenantId: string; sessionId: string }>,
  calls: readonly GivenOutput[],
): Promise<readonly TakenOutput[]> {
  const taken = await compareOutputs(tx, owner, calls);
  if (taken.length === 0 || !calls.some(({ given }) => 'content' in given)) return taken;
  // Files are stored only if a call has an output to compare them with.
  const kept = await keepGivenFiles(
    tx,
    owner,
    calls.map(({ given }) => given),
  );
  return compareOutputs(
    tx,
    owner,
    calls.map((call, at) => ({ ...call, given: kept[at] ?? call.given })),
  );
}

/** Files are the same if they are the same blob. */
async function compareOutputs(
  tx: Tx,
  { tenantId, sessionId }: Readonly<{ tenantId: string; sessionId: string }>,
  calls: readonly GivenOutput[],
): Promise<readonly TakenOutput[]> {
  const { rows } = await sql<TakenOutput>`
    select m.run_id as "runId", (p.answer -> 'given') - 'isError' = g.given as "isSame"
    from jsonb_to_recordset(${toJson(calls)}::jsonb) as g ("messageId" uuid, index int, given jsonb)
    join messages m on m.id = g."messageId" and m.session_id = ${sessionId} and m.tenant_id = ${tenantId}
    join parts p on p.message_id = m.id and p.idx = g.index
    where m.run_id is not null and not m.superseded and p.answer -> 'given' ?| array['output', 'content']
    order by m.seq desc, p.idx`.execute(tx);
  return rows;
}

/** Makes the step pending again after the last answer. The caller holds the locks of session and run. */
async function resumeRun(tx: Tx, sessionId: string, runId: string): Promise<JobPayload> {
  const { rows } = await sql<{ job: unknown }>`select baton_resume_run(${sessionId}, ${runId}) as job`.execute(tx);
  return jobPayloadSchema.parse(rows[0]?.job);
}

export type WaitingRun = Readonly<{ id: string; sessionId: string }>;

/** Runs whose wait has ended without an answer: `approvalTimeoutMs` or the deadline has passed. */
export async function findExpiredWaits(db: Db, limit: number): Promise<WaitingRun[]> {
  const { rows } = await sql<WaitingRun>`
    select id, session_id as "sessionId" from runs
    where status = 'requires_action' and approval_expires_at < (select clock_timestamp())
    order by approval_expires_at limit ${limit}`.execute(db);
  return rows;
}

export type ExpiredWait = Readonly<{ expired: number; eventSeq: number; job: JobPayload }>;

/**
 * Answers the open calls of a run with `expired`, so that it goes on, or ends if its deadline has passed. Null: the run
 * waits no longer, or another transaction has the session's lock.
 */
export async function expireWait(tx: Tx, { id: runId, sessionId }: WaitingRun): Promise<ExpiredWait | null> {
  const { rows: sessions } = await sql`
    select 1 from sessions where id = ${sessionId} for no key update skip locked`.execute(tx);
  if (sessions.length === 0) return null;
  const { rows } = await sql<{ expired: boolean }>`
    select status = 'requires_action' and approval_expires_at < clock_timestamp() as expired
    from runs where id = ${runId} for no key update`.execute(tx);
  if (rows[0]?.expired !== true) return null;
  const open = (await readOpenCalls(tx, [runId])).filter(isUnanswered);
  const events: NewEvent[] = [];
  for (const [index, call] of open.entries()) {
    events.push(...(await record(tx, call, { decision: 'expired' }, open.length - 1 - index)));
  }
  const job = await resumeRun(tx, sessionId, runId);
  return { expired: open.length, eventSeq: await appendEvents(tx, sessionId, runId, events), job };
}
