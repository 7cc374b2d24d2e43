import { percentileOf } from '../../bench/row.ts';
import { REQUEST_KINDS, type RequestKind } from './neighbour/requests.ts';

/** The goal: the p99 of another tenant's requests is at most this many times its value in quiet. */
const MAX_SLOWDOWN = 5;

/**
 * Lower quiet values count as this: one garbage collection or time slice adds a few milliseconds, which users do not
 * feel.
 */
const QUIET_FLOOR_MS = 20;

/** A p99 this many times above its limit does not come from other work on the machine. */
const NOISE = 4;

/** With fewer requests the p99 is the slowest one, which a single outlier decides. */
const MIN_REQUESTS = 100;

/** Above this quiet value, five times as much is unusable anyway, so the comparison proves nothing. */
const MAX_QUIET_MS = 300;

/** Items shown of a long list, and characters of the last output. */
const SHOWN = 3;
const SHOWN_BREACHES = 5;
const SHOWN_CHARS = 300;

/** One kind of request, in milliseconds. */
export type Felt = Readonly<{
  quiet: Timed;
  meanwhile: Timed;
  /** The highest p99 that is ok during the attack. */
  limitMs: number;
  /** Requests that failed during the attack. */
  failed: number;
}>;

export type Timed = Readonly<{ n: number; p50: number; p99: number }>;

/** Input of the verdict on a row. */
export type Evidence = Readonly<{
  felt: Readonly<Record<RequestKind, Felt>>;
  spares: readonly RequestKind[];
  /** Reasons why requests of spared kinds failed. */
  failures: readonly string[];
  /** Processes that ended by themselves. */
  ended: readonly string[];
  /** Accepted messages and sessions that are missing. */
  lost: readonly string[];
  /** Accepted runs that have not ended. */
  stuck: readonly string[];
  breaches: readonly string[];
  /** Counts of the attack, by name. */
  done: Readonly<Record<string, number>>;
  /** Why the row did not finish; null if it did. */
  brokenOff: string | null;
}>;

/** Why a row is not ok, in words. */
export type Verdict = Readonly<{
  /** Reasons that a retry cannot excuse. */
  faults: readonly string[];
  /** Kinds of requests that were too slow, during the attack or in quiet. */
  slow: readonly string[];
  /** The only fault is that the row was slightly too slow. Other load may be the cause, so a retry may pass. */
  mayBeNoise: boolean;
}>;

/** Percentiles of the durations of one kind of request. */
export function timed(tookMs: readonly number[]): Timed {
  return { n: tookMs.length, p50: tenths(percentileOf(tookMs, 50)), p99: tenths(percentileOf(tookMs, 99)) };
}

/** The highest p99 that is ok, from the p99 in quiet; both in milliseconds. */
export function limitFor(quietP99Ms: number): number {
  return tenths(MAX_SLOWDOWN * Math.max(quietP99Ms, QUIET_FLOOR_MS));
}

/** Whether a quiet p99 is low enough to compare with. */
export function isQuiet({ p99 }: Timed): boolean {
  return !(p99 > MAX_QUIET_MS);
}

/** Judges a row. It is ok if both lists are empty. */
export function judge(evidence: Evidence): Verdict {
  const { felt, spares, failures, ended, lost, stuck, breaches, done, brokenOff } = evidence;
  const faults = [
    ...(brokenOff === null ? [] : [brokenOff]),
    ...ended.map((end) => end.slice(0, SHOWN_CHARS)),
    ...several('accepted and lost', lost),
    ...several('accepted and never ended', stuck),
    ...several('not served to the other tenant', failures),
    ...breaches.slice(0, SHOWN_BREACHES),
    ...(breaches.length > SHOWN_BREACHES
      ? [`and ${breaches.length - SHOWN_BREACHES} more that must not be possible`]
      : []),
  ];
  if (Object.values(done).every((times) => times === 0)) faults.push('nothing was done');
  const slow: string[] = [];
  let slowest = 0;
  for (const kind of REQUEST_KINDS.filter((each) => spares.includes(each))) {
    const { quiet, meanwhile, limitMs } = felt[kind];
    const few = [quiet, meanwhile].find(({ n }) => n < MIN_REQUESTS);
    if (few !== undefined && brokenOff === null)
      faults.push(`only ${few.n} requests of the kind ${kind} were measured`);
    if (!isQuiet(quiet)) slow.push(`${kind}: p99 ${quiet.p99} ms in quiet, of which five times says nothing`);
    if (meanwhile.p99 > limitMs) {
      slowest = Math.max(slowest, meanwhile.p99 / limitMs);
      slow.push(`${kind}: p99 ${meanwhile.p99} ms, in quiet ${quiet.p99} ms, at most ${limitMs} ms are ok`);
    }
  }
  return { faults, slow, mayBeNoise: faults.length === 0 && slow.length > 0 && slowest < NOISE };
}

function several(what: string, all: readonly string[]): string[] {
  if (all.length === 0) return [];
  const shown = [...new Set(all.map((each) => each.slice(0, SHOWN_CHARS)))].slice(0, SHOWN);
  return [`${what}: ${all.length}, such as ${shown.join(' | ')}`];
}

const tenths = (ms: number): number => Math.round(ms * 10) / 10;
