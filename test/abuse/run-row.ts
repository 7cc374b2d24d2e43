import { setTimeout as delay } from 'node:timers/promises';
import type { Outcome, Target } from './attack/attack.ts';
import { startAttack } from './attack/start-attack.ts';
import { findLeftBehind } from './left-behind.ts';
import { type NeighbourProcess, type Samples, startNeighbour } from './neighbour/neighbour.ts';
import { REQUEST_KINDS, type RequestKind } from './neighbour/requests.ts';
import type { Row } from './row.ts';
import { type Evidence, type Felt, isQuiet, judge, limitFor, timed, type Verdict } from './verdict.ts';
import { type Product, startProduct } from './world/product.ts';
import type { Services } from './world/services.ts';

/** Durations of the parts of a row, in milliseconds. */
export type Scale = Readonly<{
  /** Warm-up, not measured: a slow start would raise the quiet value and with it the limit. */
  warmUpMs: number;
  quietMs: number;
  attackMs: number;
  /** An attack that lasts longer counts as broken off. */
  attackWithinMs: number;
  /** A run that has not ended this long after the attack counts as stuck. */
  settledWithinMs: number;
}>;

export const FULL: Scale = {
  warmUpMs: 3_000,
  quietMs: 11_000,
  attackMs: 11_000,
  attackWithinMs: 120_000,
  settledWithinMs: 60_000,
};

/** One try at one row. */
export type Try = Readonly<{ evidence: Evidence; verdict: Verdict; peakMb: Readonly<Record<string, number>> }>;

/**
 * The quiet phase is measured up to this many times until its p99 is low enough to compare with, because other load on
 * the machine may pass.
 */
const QUIET_TRIES = 3;

const ALL_SPARED: readonly RequestKind[] = REQUEST_KINDS;

/**
 * Starts the product, measures another tenant's requests in quiet and then during the attack, and judges. Everything
 * that it started has ended when the promise settles.
 * @throws the signal's reason when it aborts
 */
export async function tryRow(
  row: Row,
  services: Services,
  { seed, scale, signal }: Readonly<{ seed: string; scale: Scale; signal: AbortSignal }>,
): Promise<Try> {
  await using stack = new AsyncDisposableStack();
  const product = stack.use(await startProduct(row, services));
  const neighbour = stack.use(await startNeighbour({ url: product.url, headers: product.neighbour }));
  const attack = stack.use(await startAttack());
  const spares = row.spares ?? ALL_SPARED;
  await neighbour.measure(scale.warmUpMs, signal);
  const quiet = await measureQuiet(neighbour, scale.quietMs, spares, signal);
  await neighbour.start();
  const { outcome, brokenOff } = await within(
    attack.strike({ row: row.name, target: await targetOf(product, seed, scale.attackMs) }),
    scale.attackWithinMs,
    signal,
  );
  const meanwhile = await neighbour.stop();
  const kept = await neighbour.kept();
  const accepted = { sessions: kept.sessions, messages: [...kept.taken, ...outcome.accepted] };
  const left = await findLeftBehind(product.databaseUrl, accepted, scale.settledWithinMs, signal);
  const evidence = {
    felt: feltIn(quiet, meanwhile),
    spares,
    failures: spares.flatMap((kind) => [...quiet[kind].failures, ...meanwhile[kind].failures]),
    ended: product.ownEnds(),
    ...left,
    breaches: outcome.breaches,
    done: outcome.done,
    brokenOff,
  };
  return { evidence, verdict: judge(evidence), peakMb: await product.peakMb() };
}

/** Without a kind of request to compare, a short measurement is enough: it gives the neighbour sessions and runs. */
async function measureQuiet(
  neighbour: NeighbourProcess,
  quietMs: number,
  spares: readonly RequestKind[],
  signal: AbortSignal,
): Promise<Samples> {
  if (spares.length === 0) return neighbour.measure(0, signal);
  for (let tries = 1; ; tries++) {
    const quiet = await neighbour.measure(quietMs, signal);
    if (tries === QUIET_TRIES || spares.every((kind) => isQuiet(timed(quiet[kind].tookMs)))) return quiet;
  }
}

async function targetOf(product: Product, seed: string, lastsMs: number): Promise<Target> {
  const { url, redisUrl, simulatorUrl, workspace, folder, diskFolder, attacker, accomplice } = product;
  const databaseUrl = await product.databaseUrl();
  const stores = { databaseUrl, redisUrl, diskFolder };
  return { url, ...stores, simulatorUrl, workspace, folder, headers: attacker, accomplice, seed, lastsMs };
}

const NOTHING: Outcome = { done: {}, accepted: [], breaches: [] };

async function within(
  striking: Promise<Outcome>,
  limitMs: number,
  signal: AbortSignal,
): Promise<Readonly<{ outcome: Outcome; brokenOff: string | null }>> {
  const giveUp = new AbortController();
  const late = delay(limitMs, 'late' as const, { signal: AbortSignal.any([signal, giveUp.signal]) });
  late.catch(() => undefined);
  try {
    const outcome = await Promise.race([striking, late]);
    if (outcome !== 'late') return { outcome, brokenOff: null };
    return { outcome: NOTHING, brokenOff: `the attack was not over after ${limitMs} ms` };
  } catch (error) {
    signal.throwIfAborted();
    return { outcome: NOTHING, brokenOff: `the attack broke off: ${error instanceof Error ? error.message : error}` };
  } finally {
    giveUp.abort();
  }
}

function feltIn(quiet: Samples, meanwhile: Samples): Readonly<Record<RequestKind, Felt>> {
  const of = (kind: RequestKind): Felt => {
    const [before, then] = [timed(quiet[kind].tookMs), timed(meanwhile[kind].tookMs)];
    return { quiet: before, meanwhile: then, limitMs: limitFor(before.p99), failed: meanwhile[kind].failures.length };
  };
  return { read: of('read'), create: of('create'), run: of('run') };
}
