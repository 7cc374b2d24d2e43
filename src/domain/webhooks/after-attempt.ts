const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Pauses before the second attempt and each later one. After the last attempt the delivery has failed. */
export const RETRY_PAUSES_MS: readonly number[] = [
  5 * SECOND,
  30 * SECOND,
  2 * MINUTE,
  10 * MINUTE,
  HOUR,
  6 * HOUR,
  DAY,
  DAY,
  DAY,
];

/** A webhook whose attempts all fail for this long is disabled. */
export const FAILING_FOR_MS = 3 * DAY;

/** A pause is longer by up to this share of it, so that deliveries of one outage do not come back together. */
const JITTER_SHARE = 0.2;

/** `status`: null, no response came. */
export type Attempt = Readonly<{
  /** From 1. */
  no: number;
  status: number | null;
  /** Since the first failed attempt at the webhook after its last success. 0: none failed before this one. */
  failingForMs: number;
}>;

export type AfterAttempt = Readonly<
  | { kind: 'delivered' }
  | { kind: 'retry'; delayMs: number }
  | { kind: 'failed' }
  /** The delivery has failed, and nothing more is sent to its webhook. */
  | { kind: 'disable'; reason: 'gone' | 'failing' }
>;

/**
 * Decides how a delivery goes on after an attempt. Any 2xx is a success. A redirect is a failure, because it is not
 * followed. Pure.
 * @param random from 0 up to 1
 */
export function afterAttempt({ no, status, failingForMs }: Attempt, random: number): AfterAttempt {
  if (status !== null && status >= 200 && status < 300) return { kind: 'delivered' };
  if (status === 410) return { kind: 'disable', reason: 'gone' };
  if (failingForMs >= FAILING_FOR_MS) return { kind: 'disable', reason: 'failing' };
  const pauseMs = RETRY_PAUSES_MS[no - 1];
  if (pauseMs === undefined) return { kind: 'failed' };
  return { kind: 'retry', delayMs: Math.round(pauseMs * (1 + JITTER_SHARE * random)) };
}

/** The result of a delivery's job, which its queue keeps for a while. `next`: `delivered`, `again in 5100 ms`, `failed`. */
export type DeliveryReport = Readonly<{ attempt: number; status: number | null; ms: number; next: string }>;

export function describeAttempt({ no, status }: Attempt, after: AfterAttempt, tookMs: number): DeliveryReport {
  const next =
    after.kind === 'retry'
      ? `again in ${after.delayMs} ms`
      : after.kind === 'disable'
        ? `failed, and its webhook is disabled: ${after.reason}`
        : after.kind;
  return { attempt: no, status, ms: Math.round(tookMs), next };
}
