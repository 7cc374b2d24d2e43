import { outputField } from '../api/output-field.ts';
import { type AnsweredRun, answerQuestionIn } from '../commands/answer-call.ts';
import type { Caller } from '../domain/access.ts';
import type { UserPart } from '../domain/transcript/message.ts';
import type { CallAnswer } from '../domain/transcript/required-action.ts';
import { refuseInvalid } from '../http/bodies/validation.ts';
import type { Tx } from '../store/db/database.ts';
import type { OpenAction } from '../store/lists/open-question.ts';
import type { SessionRow } from '../store/session/sessions.ts';

/**
 * Gives the session's active run the answers in a request: see `answerQuestionIn`.
 * @param answerTo the request's answer to a call; null: none
 * @param content of the message that the transaction sends afterwards
 * @throws BatonError and ProblemError `invalid_request`
 */
export function answerCallsIn(
  tx: Tx,
  actor: Caller,
  { id: sessionId }: Pick<SessionRow, 'id'>,
  {
    answerTo,
    content = [],
  }: Readonly<{ answerTo: (action: OpenAction) => CallAnswer | null; content?: readonly UserPart[] }>,
): Promise<AnsweredRun | null> {
  const answerApart = (action: OpenAction): CallAnswer | null => {
    const answer = answerTo(action);
    return answer === null ? null : withFilesApart(answer);
  };
  return answerQuestionIn(tx, { actor, sessionId, answerTo: answerApart, content });
}

/** Splits an output with files into texts and files. @throws ProblemError `invalid_request` */
function withFilesApart(given: CallAnswer): CallAnswer {
  if (given.kind !== 'output') return given;
  const read = outputField.safeParse(given.output);
  refuseInvalid({ target: 'json', ...read });
  return { ...(read.data ?? given), ...(given.isError === true && { isError: true }) };
}
