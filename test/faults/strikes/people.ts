import { fileURLToPath } from 'node:url';
import type { Fault } from '../fault.ts';
import { LONG_LEASES } from '../leases.ts';
import { changesOf, type EditOptions } from '../world/edits.ts';
import { KILLS_OF_WORKERS, type Strikes } from '../world/strikes.ts';
import { createFailing, failuresOf } from './provider.ts';
import { pause, repeatedly } from './repeatedly.ts';

/** People change or take back their messages, and resume the messages that a cancelled run has left. */
const SECOND_THOUGHTS: Partial<EditOptions> = {
  editChance: 0.12,
  moveChance: 0.08,
  removeChance: 0.12,
  clearChance: 0.05,
  rejectChance: 0.1,
  repeatChance: 0.1,
  resumeChance: 0.7,
};

const KILLS_OF_API = 'kills of the API';
const RESTARTS = 'restarts';
const LIBRARY_WORKER = fileURLToPath(new URL('../library-worker.ts', import.meta.url));
const FLUSHES = 'flushes';

function countIf(strikes: Strikes, what: string, isDone: boolean | undefined): void {
  if (isDone === true) strikes.add(what);
}

export const PEOPLE: readonly Fault[] = [
  { name: 'none', about: 'nothing at all', isHarmless: true, strikesNothing: true },
  {
    name: 'cancels-and-steers',
    about:
      'people change their minds at random moments: cancel, steer, follow up, interrupt, change and take back what waits',
    isHarmless: true,
    traffic: {
      ...SECOND_THOUGHTS,
      // Few sessions, as in `cancel-answers`: the row measures the time that a cancel takes.
      sessions: 5,
      steerChance: 0.5,
      followupChance: 0.3,
      interruptChance: 0.2,
      cancelChance: 0.4,
      cancelAnswerChance: 0.1,
      // Few runs get as far as their end: with 0.3, a row of sixteen runs once had no message at an end.
      atEndChance: 0.6,
    },
    hits: (_world, { messages, edits, cancels, atEnds }) => ({
      'second thoughts': changesOf(messages, edits),
      cancels: cancels.length,
      'messages at an end': atEnds.length,
    }),
    manners: { chunkDelayMs: 15, maxChunks: 30 },
  },
  {
    name: 'steers-at-the-end',
    about: 'people go on at the very moment in which a run is about to end, again and again',
    isHarmless: true,
    traffic: { steerChance: 0, atEndChance: 0.25, atEndMessages: 4 },
    manners: { maxRounds: 1, maxChunks: 4 },
    hits: (_world, { atEnds }) => ({ 'messages at an end': atEnds.length }),
  },
  {
    name: 'cancel-answers',
    about: 'people cancel while the model answers',
    isHarmless: true,
    // Few sessions: with more, the row would measure how busy the machine is.
    traffic: { sessions: 4, cancelAnswerChance: 0.4 },
    manners: { chunkDelayMs: 25, maxChunks: 30 },
    hits: ({ simulator }) => ({
      'answers broken off': simulator.requests.filter(({ abortedAtMs }) => abortedAtMs !== undefined).length,
    }),
  },
  {
    name: 'rolling-restart',
    about:
      'SIGTERM to every process in turn, under load; half of the workers have no time to finish what they have in hand',
    isHarmless: true,
    environmentOf: (random) => (random.chance(0.5) ? { BATON_SHUTDOWN_GRACE_MS: '0' } : {}),
    async strike(world, random, signal) {
      let turn = 0;
      await repeatedly({ random, signal, pauseMs: [300, 900] }, async () => {
        const processes = [...world.fleet.members().map(({ child }) => child), world.api.child()];
        const child = processes[turn++ % processes.length];
        countIf(world.strikes, RESTARTS, child?.kill('SIGTERM'));
        await Promise.race([child?.ended, pause(30_000, signal)]);
      });
    },
  },
  {
    name: 'kill-library',
    about: 'SIGKILL and SIGTERM at random moments to programs that have Baton in their own process',
    environment: LONG_LEASES,
    versions: async () => [LIBRARY_WORKER],
    async strike({ fleet, strikes }, random, signal) {
      for (const what of [KILLS_OF_WORKERS, RESTARTS]) strikes.add(what, 0);
      let turn = 0;
      await repeatedly({ random, signal, pauseMs: [600, 2_000] }, () => {
        const program = fleet.anyone(random);
        const isKilled = turn++ % 2 === 0 && program?.kill() === true;
        if (!isKilled) countIf(strikes, RESTARTS, program?.child.kill('SIGTERM'));
      });
    },
  },
  {
    name: 'everything',
    about: 'kills, cut connections, an emptied Redis, provider failures, cancels and steers, all at once',
    traffic: { steerChance: 0.4, followupChance: 0.2, interruptChance: 0.1, cancelChance: 0.2, atEndChance: 0.2 },
    strike(world, random, signal) {
      const { strikes, fleet, api, redis } = world;
      for (const what of [KILLS_OF_WORKERS, KILLS_OF_API, RESTARTS, ...(redis === null ? [] : [FLUSHES])]) {
        strikes.add(what, 0);
      }
      const fail = createFailing(world);
      const acts = [
        () => fleet.anyone(random)?.kill(),
        () => fail({ kind: 'cut', afterChunks: random.between(0, 6) }),
        () => countIf(strikes, KILLS_OF_API, api.child().kill('SIGKILL')),
        async () => countIf(strikes, FLUSHES, ((await redis?.flush()) ?? 0) > 0),
        () => countIf(strikes, RESTARTS, fleet.anyone(random)?.child.kill('SIGTERM')),
        () => fail({ kind: 'server-error' }),
      ];
      // Each act once, and then acts at random.
      const first = acts.values();
      return repeatedly({ random, signal, pauseMs: [150, 600] }, async () => {
        await (first.next().value ?? random.pick(acts))();
      });
    },
    hits: failuresOf,
  },
];
