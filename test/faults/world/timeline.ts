import { appendFileSync } from 'node:fs';
import type { RequestRecord } from '../../../simulator/request.ts';
import { rawId } from '../check/snapshot.ts';
import type { LogLine } from './child.ts';
import type { Traffic } from './traffic.ts';

/** A claim that a worker logged. Times are milliseconds of `performance.now()` of this process. */
type SeenClaim = Readonly<{
  runId: string;
  sessionId: string;
  workerId: string;
  /** Version that the worker's process logged at its start. */
  engine: number;
  atMs: number;
  /** Time at which the worker logged the claim, as far as both clocks agree. This process read the line at `atMs`. */
  saidAtMs: number;
}>;

/** A run whose worker was killed while it had the run or before it had passed the run on, with its kind of job. */
type Orphan = Readonly<{ runId: string; workerId: string; killedAtMs: number } & Partial<LeftWork>>;

/** Work that a dead worker had in hand. */
type LeftWork = Readonly<{ sessionId: string; jobKind: string }>;

/** The log lines, kills and stops of the processes of a world, and the crashes of its stores. */
export type Timeline = Readonly<{
  claims: readonly SeenClaim[];
  orphans: readonly Orphan[];
  /** Times at which workers were killed. */
  kills: readonly number[];
  /** Times at which workers were told to stop. */
  stops: readonly number[];
  /** Times at which a store was killed. */
  crashes: readonly number[];
  /** Number of times that each event was logged. */
  logged: ReadonlyMap<string, number>;
  /** Reasons why runs were taken back or their jobs added again, without jobs that a process logged as not added. */
  recoveries: () => readonly string[];
  /** Number of jobs that workers left alone because another worker had the run. */
  jobsOfOthers: () => number;
  hear: (workerId: string, line: LogLine) => void;
  /** Takes a log line of the API. Only lines that excuse a recovery count. */
  hearApi: (line: LogLine) => void;
  killed: (atMs: number) => void;
  crashed: (atMs: number) => void;
  orphaned: (workerId: string, orphans: readonly (Readonly<{ id: string }> & LeftWork)[], killedAtMs: number) => void;
}>;

/** @param logFile file to which every line is appended as well */
export function createTimeline(logFile: string | undefined): Timeline {
  const claims: SeenClaim[] = [];
  const orphans: Orphan[] = [];
  const kills: number[] = [];
  const stops: number[] = [];
  const crashes: number[] = [];
  const logged = new Map<string, number>();
  const recoveries: Readonly<{ runId: string; reason: string }>[] = [];
  const notEnqueued = new Set<string>();
  let jobsOfOthers = 0;
  const engines = new Map<string, number>();
  const keep = (workerId: string, line: LogLine): void => {
    if (logFile !== undefined) appendFileSync(logFile, `${JSON.stringify({ workerId, ...line })}\n`);
    if (line['event'] !== 'jobs_not_enqueued') return;
    for (const runId of [line['runIds']].flat()) notEnqueued.add(String(runId));
  };
  return {
    claims,
    orphans,
    kills,
    stops,
    crashes,
    logged,
    recoveries: () =>
      recoveries.flatMap(({ runId, reason }) => (reason === 'job_lost' && notEnqueued.has(runId) ? [] : [reason])),
    jobsOfOthers: () => jobsOfOthers,
    hear(workerId, line) {
      keep(workerId, line);
      const event = String(line['event']);
      logged.set(event, (logged.get(event) ?? 0) + 1);
      if (event === 'process_started') engines.set(workerId, Number(line['engine']));
      if (event === 'job_claimed') {
        const { runId, sessionId } = line;
        const saidAtMs = Date.parse(String(line['time'])) - performance.timeOrigin;
        claims.push({
          runId: rawId(String(runId)),
          sessionId: rawId(String(sessionId)),
          workerId,
          engine: engines.get(workerId) ?? 0,
          atMs: performance.now(),
          saidAtMs,
        });
      }
      if (event === 'job_ignored' && line['reason'] === 'held') jobsOfOthers += 1;
      if (event === 'process_stopping') stops.push(performance.now());
      if (event === 'run_recovered') recoveries.push({ runId: String(line['runId']), reason: String(line['reason']) });
    },
    hearApi: (line) => keep('api', line),
    killed: (atMs) => void kills.push(atMs),
    crashed: (atMs) => void crashes.push(atMs),
    orphaned(workerId, left, killedAtMs) {
      if (logFile !== undefined) {
        appendFileSync(logFile, `${JSON.stringify({ workerId, event: 'killed', time: new Date(), left })}\n`);
      }
      orphans.push(...left.map(({ id: runId, ...work }) => ({ runId, workerId, killedAtMs, ...work })));
    },
  };
}

type Recovering = Pick<Timeline, 'orphans' | 'kills' | 'stops' | 'crashes'> &
  Readonly<{ claims: readonly Omit<SeenClaim, 'sessionId' | 'engine' | 'saidAtMs'>[] }>;

/** A recovery is measured only if no other worker ends and no store crashes within this time after the kill. */
const UNDISTURBED_MS = 4_000;

/**
 * Time that each orphan waited for its next worker, in milliseconds. Runs that ended without a next worker are left
 * out, and so are the orphans of a kill that another worker's end or a store's crash follows so soon that this other
 * worker may have been about to recover them, or have lost the store to do it with. The choice does not depend on the length of the recovery.
 */
export function recoveryTimes({ claims, orphans, kills, stops, crashes }: Recovering): number[] {
  const ends = [...kills, ...stops, ...crashes];
  const isDisturbed = (atMs: number): boolean => ends.some((other) => other > atMs && other < atMs + UNDISTURBED_MS);
  return orphans.flatMap(({ runId, workerId, killedAtMs }) => {
    if (isDisturbed(killedAtMs)) return [];
    const next = claims.find(
      (claim) => claim.runId === runId && claim.workerId !== workerId && claim.atMs > killedAtMs,
    );
    return next === undefined ? [] : [next.atMs - killedAtMs];
  });
}

/**
 * Times in the log are whole milliseconds. A request begins some milliseconds after its claim, and the next claim comes
 * after the end of the request.
 */
const CLOCKS_DIFFER_MS = 2;

/** In its first moments a process compiles its code. Cancels do not count then, as their times would include that. */
const WARM_AFTER_MS = 3_000;

type CancelledWorld = Readonly<{
  simulator: Readonly<{
    requests: readonly Pick<RequestRecord, 'cacheKey' | 'startedAtMs' | 'endedAtMs' | 'abortedAtMs'>[];
  }>;
  timeline: Readonly<{ claims: readonly Omit<SeenClaim, 'workerId' | 'engine' | 'atMs'>[] }>;
}>;

type Cancelling = Readonly<{
  startedAtMs: number;
  cancels: readonly Pick<Traffic['cancels'][number], 'sessionId' | 'runId' | 'sentAtMs'>[];
}>;

/**
 * Times from a cancel to the moment at which the provider saw the request of that run broken off, if one was under way.
 * The run may have ended before its cancel, or wait: a request of another run of the session does not count then.
 */
export function cancelTimes(
  { simulator, timeline }: CancelledWorld,
  { cancels, startedAtMs: sinceMs }: Cancelling,
): number[] {
  return cancels.flatMap(({ sessionId, runId, sentAtMs }) => {
    if (sentAtMs < sinceMs + WARM_AFTER_MS) return [];
    const request = simulator.requests.find(
      ({ cacheKey, startedAtMs, endedAtMs = Number.POSITIVE_INFINITY }) =>
        cacheKey === rawId(sessionId) && startedAtMs <= sentAtMs && endedAtMs > sentAtMs,
    );
    if (request?.abortedAtMs === undefined) return [];
    const { startedAtMs, abortedAtMs } = request;
    const claim = timeline.claims.findLast(
      (it) => it.sessionId === rawId(sessionId) && it.saidAtMs < startedAtMs + CLOCKS_DIFFER_MS,
    );
    return claim?.runId === rawId(runId) ? [abortedAtMs - sentAtMs] : [];
  });
}
