import { agentSchema } from '../../agents/agent.ts';
import { followRun } from '../../facades/follow-run.ts';
import {
  type Completion,
  type CompletionPiece,
  createCompletionWriter,
} from '../../facades/openai/completion-writer.ts';
import type { RunUpdate } from '../../facades/run-updates.ts';
import { waitForTurn } from '../../facades/wait-for-turn.ts';
import { requestCancel } from '../../store/cancels.ts';
import { placeConversation } from '../../store/conversations.ts';
import { readRequiredActions } from '../../store/open-calls.ts';
import { findRun } from '../../store/runs.ts';
import { readAgentSnapshot } from '../../store/sessions.ts';
import { followDeps } from '../follow-deps.ts';
import type { HttpDeps } from '../http-deps.ts';
import { tellCancelled } from '../tell-cancelled.ts';
import { headOf, type StartedCompletion } from './start-completion.ts';

export type PiecesOptions = Readonly<{
  signal: AbortSignal;
  /** The client has named the session, and can come back to it: going away cancels nothing. */
  isDurable: boolean;
  /** Whether it is the client that has gone away, where nobody waits for the completion any more. */
  isGone: () => boolean;
  /** Only a stream tells what happens meanwhile. */
  isStream: boolean;
}>;

/**
 * A completion as it comes. At its end the session is known by the conversation; a client that goes away before ends the run
 * of a session that it could not find again.
 */
export async function* completionPieces(
  deps: HttpDeps,
  started: StartedCompletion,
  options: PiecesOptions,
): AsyncGenerator<CompletionPiece> {
  const { tenantId } = started;
  const write = createCompletionWriter(
    options.isStream && (await showsCompaction(deps, started)),
    started.continued?.open,
  );
  let isOver = false;
  try {
    for await (const update of updatesOf(deps, started, options.signal)) {
      for (const piece of write(update)) {
        isOver = 'completion' in piece;
        if ('completion' in piece && !options.isDurable) await place(deps, started, piece.completion);
        yield piece;
      }
    }
  } catch (error) {
    isOver = true;
    throw error;
  } finally {
    if (!isOver && !options.isDurable && options.isGone()) {
      await tellCancelled(deps, await requestCancel(deps.db, tenantId, started.runId));
    }
  }
}

/** The client will send this conversation again, with what it says next. */
async function place(
  { db }: HttpDeps,
  { tenantId, sessionId, conversation }: StartedCompletion,
  { text, calls, error }: Completion,
): Promise<void> {
  if (error !== null) return;
  await placeConversation(db, tenantId, sessionId, headOf([...conversation, { role: 'assistant', text, calls }]));
}

async function showsCompaction({ db }: HttpDeps, { tenantId, sessionId }: StartedCompletion): Promise<boolean> {
  const agent = agentSchema.safeParse(await readAgentSnapshot(db, tenantId, sessionId));
  return agent.data?.context.compaction.notice === 'text';
}

async function* updatesOf(
  deps: HttpDeps,
  { tenantId, sessionId, runId, accepted, continued }: StartedCompletion,
  signal: AbortSignal,
): AsyncGenerator<RunUpdate> {
  let ref = { tenantId, sessionId, runId };
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
