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
  /** Aborted when there is nothing more to tell: `whyEnded` knows the reason. */
  signal: AbortSignal;
  /** The client has named the session, and can come back to it: going away cancels nothing. */
  isDurable: boolean;
  /** Where nobody reads any more: whether it is the client that has gone away, and not the server. */
  isGone: () => boolean;
  /** Why nothing more is told to a client that is still there; null: it has gone away itself. */
  whyEnded: () => EarlyEnd | null;
  /** The error of a reader that failed, as the client is told of it. */
  toError: (error: unknown) => ErrorRecord;
  /** Only a stream tells what happens meanwhile. */
  isStream: boolean;
}>;

/** A completion as it is told. */
export type CompletionPieces = Readonly<{
  /** Ends with the completion, unless its client has gone away. */
  pieces: AsyncIterable<CompletionPiece>;
  /**
   * Nobody reads the pieces any more, whether or not anybody began to: a client that went away before the end ends the
   * run of a session that it could not find again.
   */
  leave: () => Promise<void>;
}>;

/** A completion as it comes. At its end the session is known by the conversation. */
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

/** Nobody is told the answer any more. Where nobody could come back for it, its run ends. */
async function leaveAnswer(deps: HttpDeps, started: StartedCompletion, options: PiecesOptions): Promise<void> {
  const { caller, sessionId, readerId } = started;
  const place = placeOf(started);
  const runId = started.accepted?.runId ?? started.runId;
  if (!(await leaveTurn(deps.db, sessionId, readerId)) || options.isDurable) return;
  // Who waits for a whole answer is told nothing before it: the library tries again by itself, and
  // expects this very answer.
  if (!options.isStream) await delay(CLIENT_RETURNS_WITHIN_MS, undefined, { ref: false });
  if (!options.isGone()) return;
  const outcome = await inTransaction(deps.db, async (tx) => {
    await lockSession(tx, caller.tenantId, sessionId);
    const turn = await readTurn(tx, sessionId);
    // Whoever came back for it and was told it whole is about to go on: with results, where the run waits for some.
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
 * The client will send this conversation again, with what it says next; where it was told no answer,
 * nobody listens any more.
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
