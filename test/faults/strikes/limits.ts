import type { Random } from '../../support/random.ts';
import type { Fault } from '../fault.ts';
import { LONG_LEASES } from '../leases.ts';
import type { Member } from '../world/fleet.ts';
import { NOTICE } from '../world/model.ts';
import type { Strikes } from '../world/strikes.ts';
import type { Passage } from '../world/tap.ts';
import { killAt, type Moment } from './kill-at.ts';
import { SESSIONS_OF_KILLS } from './kills.ts';

const PLANNED = /"kind":"finish"[\s\S]*"kind":"final_answer"/;
const GIVEN = /"kind":"finish"[\s\S]*run:incomplete/;
const ASKED = new RegExp(NOTICE);

/** The share of connections that are cut, which costs a reply, among the strikes; the others kill. */
const CUTS = 0.4;

/** Moments around the final answer of a run, on a worker's way to Postgres or to the provider. */
const MOMENTS: readonly Omit<Moment, 'nth'>[] = [
  { name: 'at the plan', line: 'postgres', marker: PLANNED, on: 'request' },
  { name: 'at the plan', line: 'postgres', marker: PLANNED, on: 'reply' },
  { name: 'at the request', line: 'provider', marker: ASKED, on: 'request' },
  { name: 'at the request', line: 'provider', marker: ASKED, on: 'reply', laterMs: 40 },
  { name: 'at the end', line: 'postgres', marker: GIVEN, on: 'request' },
  { name: 'at the end', line: 'postgres', marker: GIVEN, on: 'reply' },
];

/** The occurrence of a moment at which it strikes: of each moment there are a few while a worker lives. */
const STRIKES_AT = [2, 12] as const;
const FIRST_STRIKES_AT = [1, 3] as const;

/** Strikes at some occurrence of every moment, one after the other. */
function strikeAround(member: Member, random: Random, strikes: Strikes): void {
  for (const moment of MOMENTS) {
    const own = random.fork(`${moment.line} ${moment.marker} ${moment.on}`);
    const cutSome = (passage: Passage): boolean => {
      const cuts = own.chance(CUTS);
      if (!cuts) return false;
      passage.cut();
      strikes.add('lost replies');
      return true;
    };
    killAt(member, own, strikes, { ...moment, nth: STRIKES_AT, firstNth: FIRST_STRIKES_AT, instead: cutSome });
  }
}

export const LIMITS: readonly Fault[] = [
  {
    name: 'kill-final-answer',
    about: 'SIGKILL and lost replies around the final answers of runs that have reached their limit',
    environment: LONG_LEASES,
    traffic: { sessions: SESSIONS_OF_KILLS },
    tapped: ['postgres', 'provider'],
    maxSteps: 2,
    manners: { maxRounds: 6 },
    onMember: strikeAround,
  },
];
