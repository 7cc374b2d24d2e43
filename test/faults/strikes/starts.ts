import type { Random } from '../../support/random.ts';
import type { Fault } from '../fault.ts';
import { LONG_LEASES } from '../leases.ts';
import type { Line } from '../world/fleet.ts';
import type { Strikes } from '../world/strikes.ts';
import type { Tap } from '../world/tap.ts';
import type { World } from '../world/world.ts';
import { repeatedly } from './repeatedly.ts';

/** How a store is away: it is restarted, its network swallows everything, or it answers late. */
const OUTAGES: Readonly<Record<string, (tap: Tap) => () => void>> = {
  refused(tap) {
    tap.refuse();
    return tap.restore;
  },
  silent(tap) {
    tap.swallow();
    return tap.restore;
  },
  slow(tap) {
    tap.hold();
    return tap.release;
  },
};

const AWAY_MS = [200, 3_000] as const;

/** Chance of an outage in a start. Without one, no worker might ever be started. */
const STARTS_IN_OUTAGES = 0.7;

/**
 * Workers start in the middle of an outage of one store, from the first to the last request of their start; and the API
 * process starts while the store itself is killed. Each worker takes all kinds of jobs.
 */
export const STARTS: readonly Fault[] = [
  {
    name: 'start-in-redis-outage',
    about: 'workers and the API start while Redis restarts, swallows everything, or answers late',
    backends: ['redis'],
    ...inOutageOf('redis', [
      { marker: /^/, requests: 45 },
      // A client that asks for the version of its server may keep the failure for good.
      { marker: /\$4\r\ninfo\r\n/i, requests: 6 },
    ]),
    strike: (world, random, signal) =>
      repeatedly({ random, signal, pauseMs: [1_000, 4_000] }, () =>
        restart(world, random, async () => {
          await world.redis?.crashAndRestart(random.between(0, 2_000));
          world.strikes.add('crashes of Redis');
        }),
      ),
  },
  {
    name: 'start-in-postgres-outage',
    about: 'workers and the API start while Postgres restarts, swallows everything, or answers late',
    ...inOutageOf('postgres', [{ marker: /^/, requests: 60 }]),
    strike: (world, random, signal) =>
      repeatedly({ random, signal, pauseMs: [1_000, 4_000] }, () =>
        restart(world, random, async () => {
          await world.postgres.crashAndRestart();
          const port = world.postgres.port();
          world.postgresTap.retarget(port);
          for (const { taps } of world.fleet.members()) taps.postgres?.retarget(port);
          world.strikes.add('crashes of Postgres');
        }),
      ),
  },
];

/** Requests of a start: those with this text, and how many there are at the most. */
type StartRequests = Readonly<{ marker: RegExp; requests: number }>;

/** @param kinds of requests, one of which begins the outage */
function inOutageOf(line: Line, kinds: readonly StartRequests[]): Partial<Fault> {
  return {
    workers: 4,
    tapped: [line],
    environment: LONG_LEASES,
    // Contexts that are pruned and compacted every few messages: all queues have work.
    agent: { context: { maxContextTokens: 4_000 } },
    traffic: { sessions: 4, paddingChars: 3_000 },
    edges: { receivers: ['well', 'slow'] },
    endsReady: true,
    onStart: (taps, random, strikes) => outageAtStart(taps[line], random.pick(kinds), random, strikes),
  };
}

function outageAtStart(
  tap: Tap | undefined,
  { marker, requests }: StartRequests,
  random: Random,
  strikes: Strikes,
): void {
  if (tap === undefined || !random.chance(STARTS_IN_OUTAGES)) return;
  const kind = random.pick(Object.keys(OUTAGES));
  const awayMs = random.between(...AWAY_MS);
  tap.arm({
    marker,
    on: 'request',
    nth: random.between(1, requests),
    strike() {
      strikes.add(`starts with a store that is ${kind}`);
      const end = OUTAGES[kind]?.(tap);
      setTimeout(() => end?.(), awayMs);
      return 'lost';
    },
  });
}

/** Chance that the API is killed in place of a worker. */
const API_INSTEAD = 0.15;

/** Kills a worker, whose successor meets an outage; or the API, whose successor meets a crash of the store. */
async function restart(world: World, random: Random, crash: () => Promise<void>): Promise<void> {
  if (!random.chance(API_INSTEAD)) return void world.fleet.anyone(random)?.kill();
  if (!world.api.child().kill('SIGKILL')) return;
  world.strikes.add('kills of the API');
  world.timeline.crashed(performance.now());
  await crash();
}
