import { HEARTBEAT_INTERVAL_MS, LEASE_DURATION_MS } from '../domain/tunables.ts';
import type { LiveBus } from '../events/live-bus.ts';
import { type Log, toSafeError } from '../platform/log.ts';
import { within } from '../platform/within.ts';
import type { Db } from '../store/db/database.ts';
import { historyOf } from '../store/db/history.ts';
import { renewLeases } from '../store/work/claims.ts';

/**
 * Why a step must stop.
 * `cancelled`: a cancel was requested, or the deadline has passed.
 * `lost`: another worker has the run, so this one writes nothing.
 * `shutdown`: this process ends and hands the run back.
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

/** A claim that this worker holds or has requested. Disposing it ends its heartbeats. */
export type HeldClaim = Disposable &
  Readonly<{
    claimId: string;
    /** The history of the database before the claim was requested. Null: this process does not know it. */
    historyEpoch: string | null;
    signal: AbortSignal;
    /** Call it once the claim is granted: heartbeats renew it from then on. */
    granted: () => void;
    /** Call it before a write that gives the claim up: a heartbeat that then misses the claim is not an error. */
    lettingGo: () => void;
    /** The first reason wins. */
    stop: (kind: StopKind) => void;
    stopped: () => StopKind | null;
    /**
     * False once the lease may have expired since the last answered heartbeat was sent, by the monotonic clock. Then no
     * tool starts and no preview is sent.
     */
    mayAct: () => boolean;
    /** A new claim of the same run, requested in the write that gives this one up. It takes over the lease as it is. */
    followedBy: (claimId: string) => HeldClaim;
    /** Resolves when a heartbeat has renewed this claim, or when it is stopped. */
    renewed: () => Promise<void>;
  }>;

export type ClaimKeeper = AsyncDisposable &
  Readonly<{
    /** Registers the claim before it is requested, so that no cancel in between is missed. */
    hold: (runId: string, claimId: string) => HeldClaim;
    /** Stops all claims, and each later one at once. */
    stopAll: (kind: StopKind) => void;
    count: () => number;
    leaseDurationMs: number;
  }>;

type Entry = {
  runId: string;
  claimId: string;
  historyEpoch: string | null;
  controller: AbortController;
  granted: boolean;
  isLettingGo: boolean;
  stopped: StopKind | null;
  heldUntilMs: number;
  renewal: PromiseWithResolvers<void>;
};

/** Renews the leases of all claims of this process with one heartbeat, which also returns cancel requests. */
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

  const hold = (runId: string, claimId: string, heldUntilMs: number): HeldClaim => {
    const entry: Entry = {
      runId,
      claimId,
      historyEpoch: historyOf(options.db).epoch(),
      controller: new AbortController(),
      granted: false,
      isLettingGo: false,
      stopped: null,
      heldUntilMs,
      renewal: Promise.withResolvers(),
    };
    entries.add(entry);
    if (ending !== null) stop(entry, ending);
    return claimOf(entry, entries, (next) => hold(runId, next, entry.heldUntilMs));
  };

  return {
    leaseDurationMs,
    hold: (runId, claimId) => hold(runId, claimId, performance.now() + leaseDurationMs),
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

function claimOf(entry: Entry, entries: Set<Entry>, followedBy: HeldClaim['followedBy']): HeldClaim {
  return {
    claimId: entry.claimId,
    historyEpoch: entry.historyEpoch,
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
    followedBy,
    renewed: () => (entry.stopped === null ? entry.renewal.promise : Promise.resolve()),
    [Symbol.dispose]: () => void entries.delete(entry),
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
    // Its connection may be dead. The next heartbeat must still be sent within the lease.
    const answers = await within(leaseDurationMs / 2, renewLeases(options.db, sent, leaseDurationMs));
    const byClaim = new Map(answers.map((answer) => [answer.claimId, answer]));
    for (const entry of sent) {
      const answer = byClaim.get(entry.claimId);
      if (answer === undefined) {
        // A finished claim was given up on purpose. A missing one that is still held was taken over.
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
