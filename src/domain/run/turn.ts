import { z } from 'zod';
import { REPEATED_WITHIN_MS } from '../tunables.ts';
import { usageSchema } from '../usage.ts';
import { isTerminalRun, type RunStatus } from './run.ts';

/** The last request of a client that sends its whole conversation, and the place of the answer. */
export const turnSchema = z.strictObject({
  runId: z.string(),
  /** The message that was accepted with it; null: the run was there already. */
  messageId: z.string().nullable(),
  /** The event after which the answer begins; null: with its run. */
  afterSeq: z.number().int().nullable(),
  /** The usage of the run before this turn. */
  usedBefore: usageSchema,
  /** The `Idempotency-Key` of the request. */
  key: z.string().nullable(),
});
export type Turn = Readonly<z.infer<typeof turnSchema>>;

/** The place of a turn's answer. Turns of the same run differ in `afterSeq`. */
export type TurnPlace = Pick<Turn, 'runId' | 'afterSeq'>;

export type TurnState = Readonly<{
  turn: Turn;
  /** The status of its run; null: the run is promised and has not begun. */
  status: RunStatus | null;
  endedMsAgo: number | null;
  /** The client has received the whole answer. */
  isAnswered: boolean;
  /** A request is receiving the answer, or was when its server died. */
  hasReader: boolean;
  /** No task run is active in the session. */
  isIdle: boolean;
}>;

/** The signs that a request repeats an earlier one. */
export type Repetition = Readonly<{
  key: string | null;
  isRetry: boolean;
}>;

/**
 * Decides about a request that equals the last one. `join`: give it the same answer. `resume`: go on with the run,
 * which was stopped without an answer or never began. `wait`: the run is `cancelling`. Null: the request is another
 * client's.
 */
export function planRepetition(state: TurnState, repetition: Repetition): 'join' | 'resume' | 'wait' | null {
  const { key, isRetry } = repetition;
  if (state.turn.key !== key) return null;
  const isAgain = key !== null || isRetry;
  // Its message is queued, and no active task run will take it.
  const isParked = state.status === null && state.isIdle;
  if (!isParked) return planBegun(state, key, isAgain);
  return isAgain || !state.hasReader ? 'resume' : null;
}

function planBegun(state: TurnState, key: string | null, isAgain: boolean): 'join' | 'resume' | 'wait' | null {
  const { status, isAnswered } = state;
  if (status === 'cancelling') return isAnswered ? null : 'wait';
  // The reader is about to get the cut-off text as the answer.
  if (status === 'incomplete' && !isAgain && state.hasReader) return null;
  if (status === 'cancelled' || (isStopped(status) && !isAgain)) return !isAnswered && state.isIdle ? 'resume' : null;
  if (!isAgain) return isAnswered || state.hasReader ? null : 'join';
  const isOld = key === null && state.endedMsAgo !== null && state.endedMsAgo > REPEATED_WITHIN_MS;
  return isOld ? null : 'join';
}

const isStopped = (status: RunStatus | null): boolean => status === 'failed' || status === 'incomplete';

/**
 * Decides about a message that continues after this turn. `take`: append it; an active run that has no reader is
 * interrupted. `wait`: the previous request is still streaming, or its answer is about to be recorded. Null: the
 * session is another client's.
 * @param partial the client's part of the answer, perhaps empty; null: all of it
 */
export function planContinuation(state: TurnState, partial: string | null): 'take' | 'wait' | null {
  const { status, isAnswered, isIdle, hasReader } = state;
  if (partial === '' && isAnswered) return null;
  if (isIdle) return 'take';
  if (status !== null && isTerminalRun(status)) return null;
  return partial === '' && !hasReader && status !== 'cancelling' ? 'take' : 'wait';
}
