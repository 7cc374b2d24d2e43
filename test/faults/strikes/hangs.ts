import type { Random } from '../../support/random.ts';
import type { Fault } from '../fault.ts';
import type { Member } from '../world/fleet.ts';
import type { Strikes } from '../world/strikes.ts';
import { pause, repeatedly } from './repeatedly.ts';

/** Longer than a lease. */
const HUNG_MS = [2_500, 3_500] as const;

export const HANGS: readonly Fault[] = [
  {
    name: 'freeze',
    about: 'SIGSTOP until others have taken over, then SIGCONT',
    strike: (world, random, signal) =>
      repeatedly({ random, signal, pauseMs: [200, 800] }, async () => {
        const child = world.fleet.anyone(random)?.child;
        if (child?.kill('SIGSTOP') === true) world.strikes.add('freezes');
        await pause(random.between(...HUNG_MS), signal);
        child?.kill('SIGCONT');
      }),
  },
  {
    name: 'black-hole',
    about: 'all connections of a worker stay open and carry nothing, until others have taken over',
    tapped: ['postgres', 'redis', 'provider'],
    strike: (world, random, signal) =>
      repeatedly({ random, signal, pauseMs: [200, 800] }, async () => {
        const taps = Object.values(world.fleet.anyone(random)?.taps ?? {});
        if (taps.some((tap) => tap.passages().length > 0)) world.strikes.add('black holes');
        for (const tap of taps) tap.swallow();
        await pause(random.between(...HUNG_MS), signal);
        for (const tap of taps) tap.restore();
      }),
  },
  {
    name: 'late-writes',
    about: 'what a worker says to Postgres arrives when others have taken over',
    tapped: ['postgres'],
    strike: (world, random, signal) =>
      repeatedly({ random, signal, pauseMs: [200, 800] }, async () => {
        const tap = world.fleet.anyone(random)?.taps.postgres;
        if (tap !== undefined && tap.passages().length > 0) world.strikes.add('held up');
        tap?.hold();
        await pause(random.between(...HUNG_MS), signal);
        tap?.release();
      }),
  },
  {
    name: 'lost-replies',
    about: 'Postgres has committed, the connection breaks before the answer',
    tapped: ['postgres'],
    traffic: { cancelChance: 0.2, interruptChance: 0.1 },
    onMember: (member, random, strikes) => loseReplies(member, random, strikes),
  },
  {
    name: 'lost-hand-overs',
    about: 'Postgres has ended a step, and mostly begun the next one; the connection breaks before the answer',
    tapped: ['postgres'],
    // Follow-ups wait for the end of a run, whose lost answer then leaves the job of the next run.
    traffic: { steerChance: 0, followupChance: 0.5 },
    isHarmless: true,
    onMember: (member, random, strikes) => loseReplies(member, random, strikes, ENDS_OF_STEPS),
  },
];

const COMMITS =
  /baton_(claim_run|restart_step|write_response|write_steps|move_call|finish_step|begin_compaction|finish_maintenance)|^Q....commit/i;

type Span = readonly [number, number];

/** Range of the commit whose reply a worker loses; the second range is for the first lost reply of a row. */
const LOST_AT: Span = [10, 50];
const FIRST_LOST_AT: Span = [1, 8];

/** Prepared statements are called by their name, which contains the name of the function. */
const ENDS_OF_STEPS = /baton_finish_step|"kind":"finish"/;

function loseReplies(member: Member, random: Random, strikes: Strikes, marker = COMMITS): void {
  member.taps.postgres?.arm({
    marker,
    on: 'reply',
    nth: random.between(...(strikes.of('lost replies') === 0 ? FIRST_LOST_AT : LOST_AT)),
    strike(passage) {
      passage.cut();
      strikes.add('lost replies');
      loseReplies(member, random, strikes, marker);
      return 'lost';
    },
  });
}
