import { percentileOf } from '../../bench/row.ts';
import { REQUEST_KINDS, type RequestKind } from './neighbour/requests.ts';

/** The goal: the p99 of another tenant's requests is at most this many times its value in quiet. */
const MAX_SLOWDOWN = 5;

/**
 * A quiet value below this counts as this. A single garbage collection, or one time slice of another process, adds a few
 * milliseconds, and no user feels them.
 */
const QUIET_FLOOR_MS = 20;

/** A p99 this many times above its limit does not come from other work on the machine. */
const NOISE = 4;

/** Of fewer requests than this the p99 is the slowest one, which a single accident decides. */
const MIN_REQUESTS = 100;

/** Five times a quiet value above this is more than a user bears: it does not tell whether the attack was felt. */
const MAX_QUIET_MS = 300;

/** Long lists and long last words are cut to these. */
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

/** Everything that a row is judged by. */
export type Evidence = Readonly<{
  felt: Readonly<Record<RequestKind, Felt>>;
  spares: readonly RequestKind[];
  /** Why requests of spared kinds were not served. */
  failures: readonly string[];
  /** Processes that have ended by themselves. */
  ended: readonly string[];
  /** Messages and sessions that were accepted and are nowhere. */
  lost: readonly string[];
  /** Runs that were accepted and have not ended. */
  stuck: readonly string[];
  breaches: readonly string[];
  /** How often the attack did what. */
  done: Readonly<Record<string, number>>;
  /** Why the row came to no end, where it did not. */
  brokenOff: string | null;
}>;

/** Why a row is not ok, in words. */
export type Verdict = Readonly<{
  /** Reasons that another try cannot excuse. */
  faults: readonly string[];
  /** Kinds of requests that were too slow, during the attack or in quiet already. */
  slow: readonly string[];
  /** The row was a little too slow and nothing else. Other work on the machine may be the cause, so another try may tell. */
  mayBeNoise: boolean;
}>;

/** Milliseconds of the requests of one kind in numbers. */
export function timed(tookMs: readonly number[]): Timed {
  return { n: tookMs.length, p50: tenths(percentileOf(tookMs, 50)), p99: tenths(percentileOf(tookMs, 99)) };
}

/** The highest p99 that is ok, from the p99 in quiet; both in milliseconds. */
export function limitFor(quietP99Ms: number): number {
  return tenths(MAX_SLOWDOWN * Math.max(quietP99Ms, QUIET_FLOOR_MS));
}

/** Whether a p99 that was measured in quiet is low enough to be compared with. */
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
