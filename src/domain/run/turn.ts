import { z } from 'zod';
import { REPEATED_WITHIN_MS } from '../tunables.ts';
import { usageSchema } from '../usage.ts';
import { isTerminalRun, type RunStatus } from './run.ts';

/** What a client that sends its whole conversation has asked last, and where the answer to it is found. */
export const turnSchema = z.strictObject({
  runId: z.string(),
  /** The message that was taken with it; null: the run was there already. */
  messageId: z.string().nullable(),
  /** The event after which the answer begins; null: with its run. */
  afterSeq: z.number().int().nullable(),
  /** What the run had used before. */
  usedBefore: usageSchema,
  /** The `Idempotency-Key` that it came with. */
  key: z.string().nullable(),
});
export type Turn = Readonly<z.infer<typeof turnSchema>>;

/** Where the answer of a turn is found: another turn of the same run has another place. */
export type TurnPlace = Pick<Turn, 'runId' | 'afterSeq'>;

/** What has become of a turn. */
export type TurnState = Readonly<{
  turn: Turn;
  /** Of its run; null: that is promised and has not begun. */
  status: RunStatus | null;
  endedMsAgo: number | null;
  /** The client was told the answer, to its end. */
  isAnswered: boolean;
  /** A request is being told the answer at this moment, or was when its server died. */
  hasReader: boolean;
  /** Nothing is at work in the session but a clean-up. */
  isIdle: boolean;
}>;

/** How a request shows that it is an earlier one once more. */
export type Repetition = Readonly<{
  key: string | null;
  /** The client says that it tries again. */
  isRetry: boolean;
}>;

/**
 * What is done about a request that asks what was asked last. `join`: it is told the same answer. `resume`: the run was
 * stopped before there was one, and goes on; or its message was left waiting, and it has never begun. `wait`: it is
 * being stopped. Null: it is another client's request.
 */
export function planRepetition(state: TurnState, repetition: Repetition): 'join' | 'resume' | 'wait' | null {
  const { key, isRetry } = repetition;
  if (state.turn.key !== key) return null;
  const isAgain = key !== null || isRetry;
  // Its message waits in the queue, and nothing is at work that would take it up.
  const isParked = state.status === null && state.isIdle;
  if (!isParked) return planBegun(state, key, isAgain);
  return isAgain || !state.hasReader ? 'resume' : null;
}

function planBegun(state: TurnState, key: string | null, isAgain: boolean): 'join' | 'resume' | 'wait' | null {
  const { status, isAnswered } = state;
  if (status === 'cancelling') return isAnswered ? null : 'wait';
  // Whoever reads what a limit has cut off is about to be told that as the answer.
  if (status === 'incomplete' && !isAgain && state.hasReader) return null;
  if (status === 'cancelled' || (isStopped(status) && !isAgain)) return !isAnswered && state.isIdle ? 'resume' : null;
  if (!isAgain) return isAnswered || state.hasReader ? null : 'join';
  const isOld = key === null && state.endedMsAgo !== null && state.endedMsAgo > REPEATED_WITHIN_MS;
  return isOld ? null : 'join';
}

const isStopped = (status: RunStatus | null): boolean => status === 'failed' || status === 'incomplete';

/**
 * What is done about a message that goes on from there. `take`: it is the session's next message, and what is still at
 * work there works for nobody. `wait`: whoever is told the answer may be about to go away, or has just gone and what it
 * was told is about to be kept. Null: the session is somebody else's.
 * @param partial what the client has of the answer; null: all of it
 */
export function planContinuation(state: TurnState, partial: string | null): 'take' | 'wait' | null {
  const { status, isAnswered, isIdle, hasReader } = state;
  if (partial === '' && isAnswered) return null;
  if (isIdle) return 'take';
  if (status !== null && isTerminalRun(status)) return null;
  return partial === '' && !hasReader && status !== 'cancelling' ? 'take' : 'wait';
}
