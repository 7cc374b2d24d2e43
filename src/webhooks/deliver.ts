import { BatonError } from '../domain/errors.ts';
import { formatId } from '../domain/ids.ts';
import { DELIVERY_TIMEOUT_MS } from '../domain/tunables.ts';
import { afterAttempt, type DeliveryReport, describeAttempt } from '../domain/webhooks/after-attempt.ts';
import type { DeliveryJob } from '../domain/webhooks/delivery-job.ts';
import type { Log } from '../platform/log.ts';
import {
  type AttemptResult,
  type ClaimedDelivery,
  claimDelivery,
  endAttempt,
  handBackDelivery,
} from '../store/around/webhook-deliveries.ts';
import type { Db } from '../store/db/database.ts';
import { type OutboundPolicy, RequestFailed, sendGuarded } from '../tools/http/guarded-request.ts';
import { signRequest } from '../tools/http/sign-request.ts';

export type DeliverDeps = Readonly<{
  db: Db;
  log: Log;
  outbound: OutboundPolicy;
  random: () => number;
  workerId: string;
}>;

/** Nothing of a response is used but its status. */
const MAX_RESPONSE_BYTES = 1_024;

/**
 * Sends a delivery once and writes what follows. A delivery whose worker dies before that is sent again, with the same
 * id and the same bytes, by which its receiver recognizes it.
 * @param shutdown aborts when the worker ends: the delivery goes back, and is sent again at once
 * @returns undefined: nothing was sent to its end
 */
export async function deliver(
  deps: DeliverDeps,
  job: DeliveryJob,
  shutdown: AbortSignal,
): Promise<DeliveryReport | undefined> {
  const { db, log } = deps;
  const delivery = await claimDelivery(db, job, deps.workerId);
  if (delivery === null) return undefined;
  const outcome = await attempt(delivery, deps.outbound, shutdown);
  if (outcome.kind === 'stopped') {
    await handBackDelivery(db, delivery, outcome);
    return undefined;
  }
  const { result, reason } = outcome;
  const { status, tookMs } = result;
  const { attemptNo: no, failingForMs, webhookId } = delivery;
  const attempted = { no, status, failingForMs };
  const next = afterAttempt(attempted, deps.random());
  if (!(await endAttempt(db, delivery, result, next))) return undefined;
  const { kind } = next;
  log(kind === 'delivered' ? 'debug' : 'info', {
    event: 'webhook_attempted',
    deliveryId: job.deliveryId,
    result: kind,
    attempt: no,
    status,
    durationMs: Math.round(tookMs),
    ...(reason !== undefined && { reason }),
  });
  if (kind === 'disable' && webhookId !== null) {
    log('warn', { event: 'webhook_disabled', webhookId, reason: next.reason });
  }
  return describeAttempt(attempted, next, tookMs);
}

/** `stopped`: the worker ended before an answer came. `wasSent`: the receiver may have the request. */
type Outcome = Readonly<
  { kind: 'ended'; result: AttemptResult; reason?: string } | { kind: 'stopped'; wasSent: boolean }
>;

/** Errors of a look-up. */
const UNKNOWN_NAME: ReadonlySet<string> = new Set(['ENOTFOUND', 'EAI_AGAIN', 'ENODATA', 'EAI_NODATA', 'ESERVFAIL']);

async function attempt(
  { id, url, secret, body, attemptNo }: ClaimedDelivery,
  outbound: OutboundPolicy,
  shutdown: AbortSignal,
): Promise<Outcome> {
  const startedAtMs = performance.now();
  const timeout = AbortSignal.timeout(DELIVERY_TIMEOUT_MS);
  const text = body.toString('utf8');
  const ended = (status: number | null, error: string | null): Extract<Outcome, { kind: 'ended' }> => ({
    kind: 'ended',
    result: { status, error, isSilent: timeout.aborted && status === null, tookMs: performance.now() - startedAtMs },
  });
  // Tenants choose the names: what differs between a private and an unknown one would list the network behind the service.
  const hidden = (reason: string): Outcome => ({ ...ended(null, 'its host has no public address'), reason });
  try {
    const { status } = await sendGuarded(
      {
        url: new URL(url),
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'user-agent': 'baton',
          'accept-encoding': 'identity',
          'baton-attempt': String(attemptNo),
          ...signRequest(secret, formatId('delivery', id), Date.now(), text),
        },
        body: text,
        maxResponseBytes: MAX_RESPONSE_BYTES,
        signal: AbortSignal.any([timeout, shutdown]),
      },
      outbound,
    );
    return ended(status, status >= 300 && status < 400 ? 'it redirects, and redirects are not followed' : null);
  } catch (error) {
    if (shutdown.aborted && !timeout.aborted) {
      return { kind: 'stopped', wasSent: error instanceof RequestFailed && error.sent };
    }
    if (timeout.aborted) return ended(null, `no answer within ${DELIVERY_TIMEOUT_MS} ms`);
    if (error instanceof BatonError) return hidden(error.message);
    if (!(error instanceof RequestFailed)) throw error;
    return UNKNOWN_NAME.has(error.message) ? hidden(error.message) : ended(null, error.message);
  }
}
