import { outputField } from '../api/output-field.ts';
import { afterAnswered } from '../commands/after-commit.ts';
import type { Caller } from '../domain/access.ts';
import { BatonError } from '../domain/errors.ts';
import { formatCallId, formatId, parseCallId } from '../domain/ids.ts';
import type { UserPart } from '../domain/transcript/message.ts';
import type { CallAnswer, RequiredAction } from '../domain/transcript/required-action.ts';
import { refuseInvalid } from '../http/bodies/validation.ts';
import type { HttpDeps } from '../http/http-deps.ts';
import { appendAudit } from '../store/around/audit.ts';
import { type AnsweredCall, answerCall } from '../store/changes/call-answers.ts';
import type { Db, Tx } from '../store/db/database.ts';
import { findRun } from '../store/session/runs.ts';
import { lockSession, type SessionRow } from '../store/session/sessions.ts';
import { findWait } from '../store/transcript/events.ts';
import { keepFilesTogether, keepGivenFiles } from '../store/transcript/media.ts';
import { readActionsOfTrees } from '../store/transcript/open-calls.ts';

type AtWork = Pick<SessionRow, 'active_run_id' | 'id'>;

/** A required action of a run, or of a run below it, with the number of the event that asked for it. */
export type AskedAction = RequiredAction & Readonly<{ askedSeq: number }>;

/** A run with required actions, or one that had some. */
export type ContinuedRun = Readonly<{
  runId: string;
  /** The event with which the run began to wait. */
  afterSeq: number;
  actions: readonly AskedAction[];
}>;

/** A run whose required actions were answered. After the commit `tellAnswered` tells others. */
export type AnsweredRun = ContinuedRun & Readonly<{ answered: readonly AnsweredCall[] }>;

/**
 * The required actions of the session's active run, and of those below it. Null: there is no such run, or it has never
 * waited.
 */
export async function readQuestion(
  db: Db,
  tenantId: string,
  { active_run_id: runId, id: sessionId }: AtWork,
): Promise<ContinuedRun | null> {
  if (runId === null) return null;
  const actions = (await readActionsOfTrees(db, [await findRun(db, tenantId, runId)])).get(runId) ?? [];
  const askerOf = ({ child }: RequiredAction): string => child?.runId ?? formatId('run', runId);
  const askers = [...new Set(actions.map(askerOf))];
  const { beganSeq, lastAsks } = await findWait(db, { tenantId, sessionId, runId }, askers);
  const asked = actions.flatMap((action): AskedAction[] => {
    const askedSeq = lastAsks[askers.indexOf(askerOf(action))] ?? null;
    return askedSeq === null ? [] : [{ ...action, askedSeq }];
  });
  return beganSeq === null ? null : { runId, afterSeq: beganSeq, actions: asked };
}

/**
 * Gives the session's active run the answers in a request, all or none. Null: no active run has waited for answers.
 * @param answerTo the request's answer to a call; null: none
 * @param said content of the message that the transaction accepts afterwards
 * @throws BatonError and ProblemError `invalid_request`
 */
export async function answerCallsIn(
  tx: Tx,
  caller: Caller,
  session: AtWork,
  answerTo: (action: AskedAction) => CallAnswer | null,
  said: readonly UserPart[] = [],
): Promise<AnsweredRun | null> {
  // Locks the session before its files, as every transaction does.
  const locked = await lockSession(tx, caller.tenantId, session.id);
  const question = await readQuestion(tx, caller.tenantId, locked);
  if (question === null) return null;
  const given = question.actions.flatMap((action) => {
    const answer = answerTo(action);
    return answer === null ? [] : [{ callId: action.id, answer: withFilesApart(answer) }];
  });
  const owner = { tenantId: caller.tenantId, sessionId: session.id };
  const answers = given.map(({ answer }) => answer);
  const outputs = answers.flatMap((answer) => (answer.kind === 'content' ? answer.content : []));
  if (outputs.length > 0) await keepFilesTogether(tx, owner, [...outputs, ...said]);
  const kept = await keepGivenFiles(tx, owner, answers);
  const answered: AnsweredCall[] = [];
  for (const [at, { callId, answer }] of given.entries()) {
    const taken = await giveAnswer(tx, caller, question.runId, callId, kept[at] ?? answer);
    if (taken !== null) answered.push(taken);
  }
  return { ...question, answered };
}

/** After the commit: tells the session's readers and adds the job of the run that goes on. */
export async function tellAnswered(deps: HttpDeps, run: AnsweredRun | null): Promise<void> {
  for (const answered of run?.answered ?? []) await afterAnswered(deps, answered);
}

/** Splits an output with files into texts and files. @throws ProblemError `invalid_request` */
function withFilesApart(given: CallAnswer): CallAnswer {
  if (given.kind !== 'output') return given;
  const read = outputField.safeParse(given.output);
  refuseInvalid({ target: 'json', ...read });
  return { ...(read.data ?? given), ...(given.isError === true && { isError: true }) };
}

/** Null: another client answered first, and the stream shows its answer. */
async function giveAnswer(
  tx: Tx,
  { tenantId, keyId }: Caller,
  runId: string,
  callId: string,
  given: CallAnswer,
): Promise<AnsweredCall | null> {
  const place = parseCallId(callId);
  if (place === null) return null;
  try {
    const answered = await answerCall(tx, { tenantId, runId, ...place }, given);
    const target = `/v1/runs/${formatId('run', runId)}/tool-calls/${formatCallId(place.messageId, place.index)}`;
    await appendAudit(tx, { tenantId, keyId, action: 'tool-call:answer', target });
    return answered;
  } catch (error) {
    if (error instanceof BatonError && (error.code === 'already_answered' || error.code === 'conflict')) return null;
    throw error;
  }
}
