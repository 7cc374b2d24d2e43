import { BatonError } from '../domain/errors.ts';
import { formatCallId, parseCallId } from '../domain/ids.ts';
import type { UserPart } from '../domain/transcript/message.ts';
import type { CallAnswer } from '../domain/transcript/required-action.ts';
import { type AnsweredCall, answerCall } from '../store/changes/call-answers.ts';
import type { Tx } from '../store/db/database.ts';
import { type OpenAction, type OpenQuestion, readQuestion } from '../store/lists/open-question.ts';
import { lockSession } from '../store/session/sessions.ts';
import { keepClientFiles, keepFilesTogether } from '../store/transcript/media.ts';
import { afterAnswered } from './after-commit.ts';
import { type Actor, auditAct, runPath } from './audit.ts';
import type { CommandPorts } from './ports.ts';

export type AnswerCall = Readonly<{
  actor: Actor;
  /** The run that made the call, or the root of its tree. */
  runId: string;
  messageId: string;
  index: number;
  answer: CallAnswer;
}>;

/** A call after its answer. After the commit the door passes it to `afterAnswered`. */
export type CallAfterAnswer = AnsweredCall;

/**
 * Answers a call that a run, or a run below it, waits for, in the caller's transaction. After the commit the caller
 * passes the result to `afterAnswered`.
 *
 * Locks the session at the root of the tree and the session of the call, then the run. Promises that the last answer lets
 * the run go on, that the same answer again changes nothing, and that the audit log has the act.
 * @throws BatonError `not_found`; `already_answered` (with another answer, or it has expired); `conflict` (the call
 * requires no action); `invalid_request` (the answer does not fit the action, or a file is invalid)
 */
export async function answerCallIn(
  tx: Tx,
  { actor, runId, messageId, index, answer }: AnswerCall,
): Promise<CallAfterAnswer> {
  const answered = await answerCall(tx, { tenantId: actor.tenantId, runId, messageId, index }, answer);
  const target = `${runPath(runId)}/tool-calls/${formatCallId(messageId, index)}`;
  await auditAct(tx, actor, 'tool-call:answer', target);
  return answered;
}

/** A run whose required actions were answered. */
export type AnsweredRun = OpenQuestion & Readonly<{ answered: readonly CallAfterAnswer[] }>;

type AnswerQuestion = Readonly<{
  actor: Actor;
  sessionId: string;
  /** The caller's answer to a call. Null: none. */
  answerTo: (action: OpenAction) => CallAnswer | null;
  /** Content of the message that the transaction sends afterwards, whose files count with those of the answers. */
  content: readonly UserPart[];
}>;

/**
 * Gives the session's active run the answers that a conversation holds, all or none, in the caller's transaction. A call
 * that another client has answered first keeps that answer. Null: no active run has waited for answers. After the commit
 * the caller passes the result to `afterAnsweredRun`.
 *
 * Locks the session; for each call, see `answerCallIn`.
 * @throws BatonError `invalid_request`; errors of `answerTo`
 */
export async function answerQuestionIn(
  tx: Tx,
  { actor, sessionId, answerTo, content }: AnswerQuestion,
): Promise<AnsweredRun | null> {
  const { tenantId } = actor;
  // Locks the session before its files, as every transaction does.
  const question = await readQuestion(tx, tenantId, await lockSession(tx, tenantId, sessionId));
  if (question === null) return null;
  const answers = question.actions.flatMap((action) => {
    const answer = answerTo(action);
    return answer === null ? [] : [{ callId: action.id, answer }];
  });
  const kept = await keepFiles(tx, { tenantId, sessionId }, answers, content);
  const answered: CallAfterAnswer[] = [];
  for (const [at, { callId, answer }] of answers.entries()) {
    const request = { actor, runId: question.runId, answer: kept[at] ?? answer };
    const call = await answerUnlessAnswered(tx, request, callId);
    if (call !== null) answered.push(call);
  }
  return { ...question, answered };
}

type GivenAnswer = Readonly<{ callId: string; answer: CallAnswer }>;

async function keepFiles(
  tx: Tx,
  owner: Readonly<{ tenantId: string; sessionId: string }>,
  submitted: readonly GivenAnswer[],
  content: readonly UserPart[],
): Promise<readonly CallAnswer[]> {
  const answers = submitted.map(({ answer }) => answer);
  const outputs = answers.flatMap((answer) => (answer.kind === 'content' ? answer.content : []));
  if (outputs.length > 0) await keepFilesTogether(tx, owner, [...outputs, ...content]);
  return keepClientFiles(tx, owner, answers);
}

/** Null: another client answered first, and the stream shows its answer. */
async function answerUnlessAnswered(
  tx: Tx,
  request: Pick<AnswerCall, 'actor' | 'runId' | 'answer'>,
  callId: string,
): Promise<CallAfterAnswer | null> {
  const place = parseCallId(callId);
  if (place === null) return null;
  try {
    return await answerCallIn(tx, { ...request, ...place });
  } catch (error) {
    if (error instanceof BatonError && (error.code === 'already_answered' || error.code === 'conflict')) return null;
    throw error;
  }
}

/** After the commit of `answerQuestionIn`. */
export async function afterAnsweredRun(ports: CommandPorts, run: AnsweredRun | null): Promise<void> {
  for (const answered of run?.answered ?? []) await afterAnswered(ports, answered);
}
