import type { AcceptedMessage } from './messages.ts';
import type { Effect } from './snapshot.ts';

/**
 * A time whose commits Postgres has lost, by `performance.now()`. What was answered before `fromMs` it has kept. From
 * `untilMs` on nobody reached the server that was lost.
 */
export type Loss = Readonly<{ fromMs: number; untilMs: number }>;

/**
 * Whether commits of that time may be all that there was of the message. It counts when the accepted request was sent,
 * not when it was answered: the answer may tell of a commit from before.
 */
export const wentWithCommits = (
  { sentAtMs, answeredAtMs }: Pick<AcceptedMessage, 'sentAtMs' | 'answeredAtMs'>,
  losses: readonly Loss[],
): boolean =>
  sentAtMs !== undefined &&
  answeredAtMs !== undefined &&
  losses.some(({ fromMs, untilMs }) => answeredAtMs > fromMs && sentAtMs < untilMs);

/** A call whose start was committed before the loss has its effect within this time, even on a busy machine. */
const EFFECT_WITHIN_MS = 5_000;

/** Whether the commits around an effect may be lost. */
export const wentUnnoted = ({ at }: Effect, losses: readonly Loss[]): boolean =>
  at !== undefined &&
  losses.some(({ fromMs, untilMs }) => {
    const atMs = at - performance.timeOrigin;
    return atMs > fromMs && atMs < untilMs + EFFECT_WITHIN_MS;
  });
