import type { ErrorRecord } from '../../domain/errors.ts';
import type { HttpDeps } from '../../http/http-deps.ts';
import { readEvents } from '../../store/transcript/events.ts';
import { readIdleState } from '../run-details.ts';
import type { EndState, RunUpdate } from '../run-updates.ts';
import { type AnswerRef, rememberAnswer, updatesOf } from './completion-pieces.ts';
import { type CompletionPiece, createCompletionWriter } from './completion-writer.ts';
import type { StartedCompletion } from './start-completion.ts';

type CutOff = Readonly<{ code: string; message: string }>;

export type ResponsePiece = Readonly<
  | CompletionPiece
  /** Why the reader hears no more, while the run goes on. */
  | { kind: 'cut-off'; cutOff: CutOff }
>;

/** A response to read. `isJson`: it was asked for a result. */
export type Answer = AnswerRef & Pick<StartedCompletion, 'isJson'>;

/**
 * A response piece by piece, up to its end: that of its run, or a question for the client's own results.
 * @param untilNow ends where the response stands now
 */
export async function* responsePieces(
  deps: HttpDeps,
  answer: Answer,
  signal: AbortSignal,
  untilNow = false,
): AsyncGenerator<ResponsePiece> {
  const openActions = answer.answerPlace?.openActions ?? [];
  const write = createCompletionWriter({ showsCompaction: false, openActions, isJson: answer.isJson });
  for await (const update of updatesOf(deps, answer, signal, untilNow)) {
    yield* write(update);
    if (!asksClient(update)) continue;
    // A replay ends at the question, too, although the run went on when it had its results.
    yield* write({ kind: 'ended', end: { status: 'requires_action' }, state: await stateAt(deps, answer, update.seq) });
    return;
  }
}

/** The state of the session whose run asked with this event. */
async function stateAt({ db }: HttpDeps, { caller, sessionId }: Answer, seq: number): Promise<EndState> {
  const { tenantId } = caller;
  const [event] = await readEvents(db, tenantId, sessionId, { afterSeq: seq - 1, limit: 1 });
  const endedAt = event?.seq === seq ? new Date(event.createdAt) : undefined;
  return { ...(await readIdleState(db, { tenantId, sessionId })), endedAt };
}

const asksClient = (update: RunUpdate): update is Extract<RunUpdate, { kind: 'asked' }> =>
  update.kind === 'asked' && update.calls.some(({ kind }) => kind === 'output');

/** The pieces of a response that has just been asked for. Its conversation is then recognized with its answer. */
export async function* newResponsePieces(
  deps: HttpDeps,
  started: StartedCompletion,
  signal: AbortSignal,
): AsyncGenerator<ResponsePiece> {
  for await (const piece of responsePieces(deps, started, signal)) {
    if (piece.kind === 'end') await rememberAnswer(deps, started, piece.completion);
    yield piece;
  }
}

/** Tells a reader who is still there why its stream ends before the response does. */
export async function* withCutOff(
  pieces: AsyncIterable<ResponsePiece>,
  { whyEnded, toError }: Readonly<{ whyEnded: () => CutOff | null; toError: (error: unknown) => ErrorRecord }>,
): AsyncGenerator<ResponsePiece> {
  let hasEnded = false;
  let cutOff: CutOff | null;
  try {
    for await (const piece of pieces) {
      hasEnded ||= piece.kind === 'end';
      yield piece;
    }
    cutOff = hasEnded ? null : whyEnded();
  } catch (error) {
    cutOff = toError(error);
  }
  if (cutOff !== null) yield { kind: 'cut-off', cutOff };
}
