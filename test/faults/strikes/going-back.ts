import { setTimeout as delay } from 'node:timers/promises';
import type { Random } from '../../support/random.ts';
import type { Fault } from '../fault.ts';
import type { OlderState } from '../world/services.ts';
import type { World } from '../world/world.ts';
import { pause, repeatedly } from './repeatedly.ts';

/** Runs whose steps take a second and more: they are at work before and after a store goes back. */
const LONG_STEPS: Partial<Fault> = {
  traffic: { sessions: 6, steerChance: 0.5 },
  manners: { maxRounds: 4, toolMs: 100, chunkDelayMs: 60 },
};

/** Stores that go back in time, under processes that go on working. */
export const GOING_BACK: readonly Fault[] = [
  {
    name: 'promoted-standby',
    about: 'a standby that lacks the last half second is promoted',
    ...LONG_STEPS,
    // Tools take about as long as what is lost: of the outcomes of one answer, some are lost and its claim is not.
    manners: { maxRounds: 4, toolMs: 500, chunkDelayMs: 30 },
    strike: (world, random, signal) =>
      goBackAgainAndAgain(world, random, signal, { lostMs: 500, older: () => world.postgres.leaveBehind() }),
  },
  {
    name: 'promoted-in-a-rush',
    about: 'the same under many short runs',
    traffic: { sessions: 24, steerChance: 0.5 },
    fewestRuns: 300,
    strike: (world, random, signal) =>
      goBackAgainAndAgain(world, random, signal, { lostMs: 500, older: () => world.postgres.leaveBehind() }),
  },
  {
    name: 'stale-standby',
    about: 'a standby that lacks the last ten seconds is promoted',
    ...LONG_STEPS,
    strike: (world, random, signal) =>
      goBackAgainAndAgain(world, random, signal, { lostMs: 10_000, older: () => world.postgres.leaveBehind() }),
  },
  {
    name: 'restored-backup',
    about: 'a backup of Postgres is restored beside a living Redis: as its disk was, or to a point in time',
    ...LONG_STEPS,
    strike: (world, random, signal) => {
      let no = random.between(0, 1);
      const older = (): Promise<OlderState> => world.postgres.backUp(no++ % 2 === 0 ? 'disk' : 'recovery');
      return goBackAgainAndAgain(world, random, signal, { lostMs: 8_000, older });
    },
  },
  {
    name: 'older-redis',
    about: 'Redis goes back to a snapshot',
    backends: ['redis'],
    ...LONG_STEPS,
    async strike(world, random, signal) {
      await atWork(world, signal);
      await repeatedly({ random, signal, pauseMs: [200, 2_000] }, async () => {
        const goBack = await world.redis?.snapshot();
        await pause(random.between(1_000, 10_000), signal);
        await goBack?.();
        world.strikes.add('returns of Redis');
        await look(world, signal);
      });
    },
  },
];

type GoingBack = Readonly<{ lostMs: number; older: () => Promise<OlderState> }>;

async function goBackAgainAndAgain(
  world: World,
  random: Random,
  signal: AbortSignal,
  { lostMs, older }: GoingBack,
): Promise<void> {
  await atWork(world, signal);
  await repeatedly({ random, signal, pauseMs: [200, 3_000] }, async () => {
    await using state = await older();
    await pause(lostMs, signal);
    if (signal.aborted) return;
    await replacePostgres(world, state);
    await look(world, signal);
  });
}

/** Puts an older state in the place of Postgres. Nobody reaches the lost one from the moment that is noted. */
async function replacePostgres({ postgres, postgresTap, losses, strikes }: World, state: OlderState): Promise<void> {
  postgresTap.refuse();
  losses.push({ fromMs: state.keptAtMs, untilMs: performance.now() });
  await state.goBack();
  postgresTap.retarget(postgres.port());
  postgresTap.restore();
  strikes.add('returns of Postgres');
}

const LOOK_AGAIN_MS = 100;

/** Waits until all sessions of the traffic are there: the people know of no other ones. */
async function atWork({ database, sessions }: World, signal: AbortSignal): Promise<void> {
  const count = async (): Promise<number> =>
    (await database.query<{ n: number }>('select count(*)::int as n from sessions')).rows[0]?.n ?? 0;
  while (!signal.aborted && (await count()) < sessions) await delay(LOOK_AGAIN_MS);
}

/** A run that stands still for this long after a return of a store waits for something that does not come. */
const STANDS_AFTER_MS = 10_000;

type Place = Readonly<{ id: string; at: string }>;

/** Notes the runs that were open when the store was back, and are where they were ten seconds later. */
async function look({ database, standing }: World, signal: AbortSignal): Promise<void> {
  const open = async (): Promise<readonly Place[]> => {
    for (;;) {
      try {
        const { rows } = await database.query<Place>(OPEN);
        return rows;
      } catch {
        await delay(LOOK_AGAIN_MS);
      }
    }
  };
  const before = new Map((await open()).map(({ id, at }) => [id, at]));
  await pause(STANDS_AFTER_MS, signal);
  if (signal.aborted) return;
  const after = await open();
  standing.push(
    ...after.filter(({ id, at }) => before.get(id) === at).map(({ id, at }) => `run ${id} is still at ${at}`),
  );
}

/** The place of a run: its claim, or the work that waits for one, and how long its log is. */
const OPEN = `
  select r.id, format('%s %s, epoch %s, event %s', r.pending_kind, r.pending_no, r.epoch, s.event_seq) as at
  from runs r join sessions s on s.id = r.session_id where r.status in ('queued', 'running')`;
