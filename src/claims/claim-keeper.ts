import { HEARTBEAT_INTERVAL_MS, LEASE_DURATION_MS } from '../domain/tunables.ts';
import type { LiveBus } from '../events/live-bus.ts';
import { type Log, toSafeError } from '../platform/log.ts';
import { within } from '../platform/within.ts';
import { renewLeases } from '../store/claims.ts';
import type { Db } from '../store/database.ts';

/**
 * Why a step was told to stop. `cancelled`: somebody asked. `lost`: another worker has the run, nothing may be written.
 * `shutdown`: this process ends, the run goes back.
 */
export type StopKind = 'cancelled' | 'lost' | 'shutdown';

/** The reason of a step's abort signal. */
export class StepStopped extends Error {
  override readonly name = 'StepStopped';
  readonly kind: StopKind;

  constructor(kind: StopKind) {
    super(`the step was stopped: ${kind}`);
    this.kind = kind;
  }
}

/** A claim in hand. Disposing it lets go of it. */
export type HeldClaim = Disposable &
  Readonly<{
    claimId: string;
    signal: AbortSignal;
    /** The claim was granted: from now on heartbeats renew it. */
    granted: () => void;
    /** A write is under way that gives the claim back: a heartbeat that misses it from now on has found nothing. */
    lettingGo: () => void;
    /** The first reason wins. */
    stop: (kind: StopKind) => void;
    stopped: () => StopKind | null;
    /**
     * False once the lease may have run out by this process's own monotonic clock, counted from the sending of the last
     * heartbeat that was answered: then no tool starts and nothing is published.
     */
    mayAct: () => boolean;
    /** Resolves at the next answered heartbeat that has this claim, and when it is stopped. */
    renewed: () => Promise<void>;
  }>;

export type ClaimKeeper = AsyncDisposable &
  Readonly<{
    /** Registers the abort controller before the claim is made, so that no notice in between is missed. */
    hold: (runId: string, claimId: string) => HeldClaim;
    /** Stops every step in hand, and at once every one that is still to come. */
    stopAll: (kind: StopKind) => void;
    count: () => number;
    leaseDurationMs: number;
  }>;

type Entry = {
  runId: string;
  claimId: string;
  controller: AbortController;
  granted: boolean;
  isLettingGo: boolean;
  stopped: StopKind | null;
  heldUntilMs: number;
  renewal: PromiseWithResolvers<void>;
};

/**
 * Keeps the leases of the runs in hand alive: one heartbeat for all of them, which also brings back cancel requests.
 */
export async function createClaimKeeper(
  options: Readonly<{ db: Db; bus: LiveBus; log: Log; leaseDurationMs?: number; heartbeatIntervalMs?: number }>,
): Promise<ClaimKeeper> {
  const leaseDurationMs = options.leaseDurationMs ?? LEASE_DURATION_MS;
  const entries = new Set<Entry>();
  const cancels = await options.bus.onCancel((runId) => {
    for (const entry of entries) if (entry.runId === runId) stop(entry, 'cancelled');
  });
  let beating: Promise<void> | null = null;
  let ending: StopKind | null = null;
  const timer = setInterval(() => {
    if (entries.size === 0 || beating !== null) return;
    beating = beat(options, entries, leaseDurationMs).finally(() => {
      beating = null;
    });
  }, options.heartbeatIntervalMs ?? HEARTBEAT_INTERVAL_MS);
  timer.unref();

  return {
    leaseDurationMs,
    hold(runId, claimId) {
      const entry: Entry = {
        runId,
        claimId,
        controller: new AbortController(),
        granted: false,
        isLettingGo: false,
        stopped: null,
        heldUntilMs: performance.now() + leaseDurationMs,
        renewal: Promise.withResolvers(),
      };
      entries.add(entry);
      if (ending !== null) stop(entry, ending);
      return {
        claimId,
        signal: entry.controller.signal,
        granted: () => {
          entry.granted = true;
        },
        lettingGo: () => {
          entry.isLettingGo = true;
        },
        stop: (kind) => stop(entry, kind),
        stopped: () => entry.stopped,
        mayAct: () => entry.stopped !== 'lost' && performance.now() < entry.heldUntilMs,
        renewed: () => (entry.stopped === null ? entry.renewal.promise : Promise.resolve()),
        [Symbol.dispose]: () => void entries.delete(entry),
      };
    },
    stopAll(kind) {
      ending = kind;
      for (const entry of entries) stop(entry, kind);
    },
    count: () => entries.size,
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      cancels[Symbol.dispose]();
      await beating;
    },
  };
}

function stop(entry: Entry, kind: StopKind): void {
  if (entry.stopped !== null) return;
  entry.stopped = kind;
  entry.controller.abort(new StepStopped(kind));
  entry.renewal.resolve();
}

function renew(entry: Entry, heldUntilMs: number): void {
  entry.heldUntilMs = heldUntilMs;
  entry.renewal.resolve();
  entry.renewal = Promise.withResolvers();
}

async function beat(
  options: Readonly<{ db: Db; log: Log }>,
  entries: ReadonlySet<Entry>,
  leaseDurationMs: number,
): Promise<void> {
  const sentAtMs = performance.now();
  const sent = [...entries].filter((entry) => entry.granted);
  if (sent.length === 0) return;
  try {
    // One without an answer must not keep the next one from being sent within the lease: its connection may be dead.
    const answers = await within(leaseDurationMs / 2, renewLeases(options.db, sent, leaseDurationMs));
    const byClaim = new Map(answers.map((answer) => [answer.claimId, answer]));
    for (const entry of sent) {
      const answer = byClaim.get(entry.claimId);
      if (answer === undefined) {
        // Who finishes lets go of the claim; what is missing and still in hand was taken over.
        if (entry.isLettingGo || !entries.has(entry)) continue;
        if (entry.stopped === null) options.log('warn', { event: 'claim_lost', runId: entry.runId });
        stop(entry, 'lost');
        continue;
      }
      renew(entry, sentAtMs + leaseDurationMs);
      if (answer.cancelRequested) stop(entry, 'cancelled');
    }
  } catch (error) {
    options.log('warn', { event: 'heartbeat_failed', claims: sent.length, error: toSafeError(error) });
  }
}
