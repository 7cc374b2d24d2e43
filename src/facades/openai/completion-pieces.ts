import { tellsOfCompaction } from '../../agents/agent.ts';
import { cancelUnread } from '../../commands/cancel-unread.ts';
import { noteConversation } from '../../commands/continue-conversation.ts';
import type { ErrorRecord } from '../../domain/errors.ts';
import { isOfClient } from '../../domain/transcript/plan-conversation.ts';
import { NO_USAGE } from '../../domain/usage.ts';
import type { HttpDeps } from '../../http/http-deps.ts';
import type { EarlyEnd } from '../../http/request-signal.ts';
import { findAskingRun } from '../../store/session/asking-runs.ts';
import { readAgentSnapshot } from '../../store/session/sessions.ts';
import { followDeps } from '../follow-deps.ts';
import { followRun } from '../follow-run.ts';
import type { RunUpdate } from '../run-updates.ts';
import { waitInQueue } from '../wait-in-queue.ts';
import { type Completion, type CompletionPiece, createCompletionWriter } from './completion-writer.ts';
import { hashOf } from './conversation-hash.ts';
import type { StartedCompletion } from './start-completion.ts';

export type PiecesOptions = Readonly<{
  /** Aborted when the stream ends early. `whyEnded` has the reason. */
  signal: AbortSignal;
  /** The run is cancelled when the client goes away. */
  endsWithClient: boolean;
  /** Whether the client has gone away, rather than the server having ended the stream. */
  isGone: () => boolean;
  /** The reason for which the stream of a connected client ends early; null: the client has gone away. */
  whyEnded: () => EarlyEnd | null;
  /** The error that the client is shown when its reader failed. */
  toError: (error: unknown) => ErrorRecord;
  /** Whether the answer is a stream. Only a stream shows compactions in the text. */
  isStream: boolean;
}>;

export type CompletionPieces = Readonly<{
  /** Ends with the completion, unless the client has gone away. */
  pieces: AsyncIterable<CompletionPiece>;
  /**
   * To be called when the reader is gone, even if it never began. If the client left before the end of an answer that ends
   * with it, the run is cancelled.
   */
  leave: () => Promise<void>;
}>;

/** A completion, piece by piece. After its end the session is recognized by the conversation with the answer. */
export function completionPieces(deps: HttpDeps, started: StartedCompletion, options: PiecesOptions): CompletionPieces {
  let isOver = false;
  async function* toEnd(): AsyncGenerator<CompletionPiece> {
    let error: Completion['error'];
    try {
      for await (const piece of piecesOf(deps, started, options)) {
        isOver ||= piece.kind === 'end';
        yield piece;
      }
      error = isOver ? null : options.whyEnded();
    } catch (failure) {
      error = options.toError(failure);
    }
    if (error === null) return;
    isOver = true;
    const nothing = { text: '', citations: [], calls: [], finishReason: null } as const;
    yield { kind: 'end', completion: { ...nothing, error, usage: NO_USAGE } };
  }
  return {
    pieces: toEnd(),
    async leave() {
      if (isOver || !options.endsWithClient || !options.isGone()) return;
      isOver = true;
      const { caller: actor, sessionId, runId, questionHash } = started;
      await cancelUnread(deps, { actor, sessionId, runId, questionHash });
    },
  };
}

/** The pieces, after a sign of their beginning, which has a frame of its own. */
export async function* withBegin<Piece>(pieces: AsyncIterable<Piece>): AsyncGenerator<Piece | 'begin'> {
  yield 'begin';
  yield* pieces;
}

async function* piecesOf(
  deps: HttpDeps,
  started: StartedCompletion,
  { signal, isStream }: PiecesOptions,
): AsyncGenerator<CompletionPiece> {
  const write = createCompletionWriter({
    showsCompaction: isStream && (await showsCompaction(deps, started)),
    openActions: started.answerPlace?.openActions ?? [],
    isJson: started.isJson,
  });
  for await (const update of updatesOf(deps, started, signal)) {
    for (const piece of write(update)) {
      if (piece.kind === 'end') await rememberAnswer(deps, started, piece.completion);
      yield piece;
    }
  }
}

/** Stores the hash of the conversation with this answer. The client will send this conversation again. */
export async function rememberAnswer(
  deps: HttpDeps,
  started: StartedCompletion,
  completion: Completion,
): Promise<void> {
  const { caller, sessionId, isNamed, conversation, owner, questionHash } = started;
  const { text, calls, error } = completion;
  // A named session is found by its name, and a run that waits for results by the ids of its calls.
  if (isNamed || calls.length > 0 || error !== null) return;
  const answerHash = hashOf(owner, [...conversation, { role: 'assistant', text, calls }]);
  await noteConversation(deps, { actor: caller, sessionId }, { questionHash, answerHash });
}

async function showsCompaction({ db }: HttpDeps, { caller, sessionId }: StartedCompletion): Promise<boolean> {
  return tellsOfCompaction(await readAgentSnapshot(db, caller.tenantId, sessionId));
}

/** The fields of a completion by which its answer is found. */
export type AnswerRef = Pick<StartedCompletion, 'caller' | 'sessionId' | 'runId' | 'accepted' | 'answerPlace'>;

/** @param untilNow ends at the present end of the log, even if the run goes on */
export async function* updatesOf(
  deps: HttpDeps,
  { caller: { tenantId }, sessionId, runId, accepted, answerPlace }: AnswerRef,
  signal: AbortSignal,
  untilNow = false,
): AsyncGenerator<RunUpdate> {
  let ref = { tenantId, sessionId, runId };
  if (accepted?.queued === true) {
    const { messageId, position, eventSeq: afterSeq } = accepted;
    const takenUpBy = yield* waitInQueue(
      followDeps(deps),
      { tenantId, sessionId, messageId, position, afterSeq },
      signal,
    );
    if (takenUpBy === null) return;
    ref = { ...ref, runId: takenUpBy };
  }
  const waitsFor = async () => {
    const { requiredActions: actions } = await findAskingRun(deps.db, tenantId, ref.runId);
    return actions.some(isOfClient) ? 'nobody' : actions;
  };
  yield* followRun(followDeps(deps), ref, { signal, afterSeq: answerPlace?.afterSeq, waitsFor, untilNow });
}
