import { setTimeout as delay } from 'node:timers/promises';
import { tellsOfCompaction } from '../../agents/agent.ts';
import type { ErrorRecord } from '../../domain/errors.ts';
import type { TurnPlace } from '../../domain/run/turn.ts';
import { CLIENT_RETURNS_WITHIN_MS } from '../../domain/tunables.ts';
import { afterCancelled } from '../../http/after-commit.ts';
import type { HttpDeps } from '../../http/http-deps.ts';
import { auditCancel } from '../../http/middleware/audit-trail.ts';
import type { EarlyEnd } from '../../http/request-signal.ts';
import { requestCancel } from '../../store/cancels.ts';
import { leaveTurn, placeAnswer, readTurn } from '../../store/conversations.ts';
import { inTransaction } from '../../store/database.ts';
import { readRequiredActions } from '../../store/open-calls.ts';
import { findRun } from '../../store/runs.ts';
import { lockSession, readAgentSnapshot } from '../../store/sessions.ts';
import { followDeps } from '../follow-deps.ts';
import { followRun } from '../follow-run.ts';
import type { RunUpdate } from '../run-updates.ts';
import { waitForTurn } from '../wait-for-turn.ts';
import { type Completion, type CompletionPiece, createCompletionWriter } from './completion-writer.ts';
import { hashOf } from './conversation-hash.ts';
import type { StartedCompletion } from './start-completion.ts';

export type PiecesOptions = Readonly<{
  /** Aborted when the stream ends early. `whyEnded` has the reason. */
  signal: AbortSignal;
  /** The client has named the session and can come back to it, so going away cancels nothing. */
  isDurable: boolean;
  /** Whether the client has gone away, rather than the server having ended the stream. */
  isGone: () => boolean;
  /** Why the stream of a connected client ends early; null: the client has gone away. */
  whyEnded: () => EarlyEnd | null;
  /** The error that the client is shown when its reader failed. */
  toError: (error: unknown) => ErrorRecord;
  /** Only a stream shows compactions in the text. */
  isStream: boolean;
}>;

export type CompletionPieces = Readonly<{
  /** Ends with the completion, unless the client has gone away. */
  pieces: AsyncIterable<CompletionPiece>;
  /**
   * To be called when the reader is gone, even if it never began. If the client left before the end and cannot find the
   * session again, the run is cancelled.
   */
  leave: () => Promise<void>;
}>;

/** A completion, piece by piece. After its end the session is recognized by the conversation with the answer. */
export function completionPieces(deps: HttpDeps, started: StartedCompletion, options: PiecesOptions): CompletionPieces {
  let isOver = false;
  async function* tell(): AsyncGenerator<CompletionPiece> {
    let error: Completion['error'];
    try {
      for await (const piece of piecesOf(deps, started, options)) {
        isOver ||= 'completion' in piece;
        yield piece;
      }
      error = isOver ? null : options.whyEnded();
    } catch (failure) {
      error = options.toError(failure);
    }
    if (error === null) return;
    isOver = true;
    await leaveTurn(deps.db, started.sessionId, started.readerId).catch(options.toError);
    yield { completion: { text: '', citations: [], calls: [], finishReason: null, error, usage: started.usedBefore } };
  }
  return {
    pieces: tell(),
    async leave() {
      if (isOver || !options.isGone()) return;
      isOver = true;
      await leaveAnswer(deps, started, options);
    },
  };
}

/** Removes a reader that has gone. If it was the last one and the client cannot come back, the run is cancelled. */
async function leaveAnswer(deps: HttpDeps, started: StartedCompletion, options: PiecesOptions): Promise<void> {
  const { caller, sessionId, readerId } = started;
  const place = placeOf(started);
  const runId = started.accepted?.runId ?? started.runId;
  if (!(await leaveTurn(deps.db, sessionId, readerId)) || options.isDurable) return;
  // A client without a stream has seen nothing yet. OpenAI's library retries by itself and expects this very answer.
  if (!options.isStream) await delay(CLIENT_RETURNS_WITHIN_MS, undefined, { ref: false });
  if (!options.isGone()) return;
  const outcome = await inTransaction(deps.db, async (tx) => {
    await lockSession(tx, caller.tenantId, sessionId);
    const turn = await readTurn(tx, sessionId);
    // A client that came back and was told the whole answer is about to go on, perhaps with results of calls.
    if (turn === null || turn.hasReader || turn.isAnswered) return null;
    if (turn.turn.runId !== place.runId || turn.turn.afterSeq !== place.afterSeq) return null;
    const cancelled = await requestCancel(tx, caller.tenantId, runId);
    if (cancelled.isNews) await auditCancel(tx, caller, runId);
    return cancelled;
  });
  if (outcome !== null) await afterCancelled(deps, outcome);
}

async function* piecesOf(
  deps: HttpDeps,
  started: StartedCompletion,
  { signal, isStream }: PiecesOptions,
): AsyncGenerator<CompletionPiece> {
  const write = createCompletionWriter(isStream && (await showsCompaction(deps, started)), started.continued?.open);
  for await (const update of updatesOf(deps, started, signal)) {
    for (const piece of write(update)) {
      if ('completion' in piece) await place(deps, started, piece.completion);
      yield piece;
    }
  }
}

/**
 * Records the answer with which the client will send its conversation again; after an error, only removes the reader.
 */
async function place({ db }: HttpDeps, started: StartedCompletion, { text, calls, error }: Completion): Promise<void> {
  const { caller, sessionId, conversation, owner, asked, readerId } = started;
  if (error !== null) return void (await leaveTurn(db, sessionId, readerId));
  const answered = hashOf(owner, [...conversation, { role: 'assistant', text, calls }]);
  const session = { tenantId: caller.tenantId, sessionId };
  const isPlaced = await placeAnswer(db, session, { asked, turn: placeOf(started), answered, readerId });
  if (!isPlaced) await leaveTurn(db, sessionId, readerId);
}

const placeOf = ({ runId, continued }: StartedCompletion): TurnPlace => ({
  runId,
  afterSeq: continued?.afterSeq ?? null,
});

async function showsCompaction({ db }: HttpDeps, { caller, sessionId }: StartedCompletion): Promise<boolean> {
  return tellsOfCompaction(await readAgentSnapshot(db, caller.tenantId, sessionId));
}

async function* updatesOf(
  deps: HttpDeps,
  { caller: { tenantId }, sessionId, runId, accepted, continued }: StartedCompletion,
  signal: AbortSignal,
): AsyncGenerator<RunUpdate> {
  let ref = { tenantId, sessionId, runId: accepted?.runId ?? runId };
  if (accepted?.queued === true) {
    const { messageId, position, eventSeq: afterSeq } = accepted;
    const takenUpBy = yield* waitForTurn(
      followDeps(deps),
      { tenantId, sessionId, messageId, position, afterSeq },
      signal,
    );
    if (takenUpBy === null) return;
    ref = { ...ref, runId: takenUpBy };
  }
  const endsAtWait = async (): Promise<boolean> => {
    const actions = await readRequiredActions(deps.db, [await findRun(deps.db, tenantId, ref.runId)]);
    return (actions.get(ref.runId) ?? []).some(({ kind }) => kind === 'output');
  };
  yield* followRun(followDeps(deps), ref, { signal, afterSeq: continued?.afterSeq, endsAtWait });
}
