import type { Random } from '../../support/random.ts';
import type { Fault } from '../fault.ts';
import type { Member } from '../world/fleet.ts';
import { NOTICE } from '../world/model.ts';
import type { Tap, Trigger } from '../world/tap.ts';
import { LONG_LEASES, SESSIONS_OF_KILLS } from './kills.ts';

/** A moment around the final answer of a run, on a worker's way to Postgres or to the provider. */
type Moment = Readonly<{ line: 'postgres' | 'provider'; marker: RegExp; on: Trigger['on']; laterMs?: number }>;

const PLANNED = /baton_finish_step[\s\S]*"finalAnswer"/;
const GIVEN = /baton_finish_step[\s\S]*run:incomplete/;
const ASKED = new RegExp(NOTICE);

const MOMENTS: readonly Moment[] = [
  { line: 'postgres', marker: PLANNED, on: 'request' },
  { line: 'postgres', marker: PLANNED, on: 'reply' },
  { line: 'provider', marker: ASKED, on: 'request' },
  { line: 'provider', marker: ASKED, on: 'reply', laterMs: 40 },
  { line: 'postgres', marker: GIVEN, on: 'request' },
  { line: 'postgres', marker: GIVEN, on: 'reply' },
];

/** The occurrence of a moment at which it strikes: of each moment there are a few while a worker lives. */
const STRIKES_AT = [2, 12] as const;
/** The share of connections that are cut, which costs a reply, among the strikes; the others kill. */
const CUTS = 0.4;

/** Strikes at some occurrence of every moment, one after the other. */
function strikeAround(member: Member, random: Random, moment: Moment): void {
  const { line, marker, on, laterMs = 0 } = moment;
  const tap: Tap | undefined = member.taps[line];
  const again = (): void => strikeAround(member, random, moment);
  tap?.arm({
    marker,
    on,
    nth: random.between(...STRIKES_AT),
    strike(passage) {
      if (random.chance(CUTS)) {
        passage.cut();
        again();
        return 'lost';
      }
      if (laterMs > 0) {
        setTimeout(() => member.kill() || again(), random.between(0, laterMs));
        return 'passed';
      }
      if (member.kill()) return 'lost';
      again();
      return 'passed';
    },
  });
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
    onMember(member, random) {
      for (const moment of MOMENTS)
        strikeAround(member, random.fork(`${moment.line} ${moment.marker} ${moment.on}`), moment);
    },
  },
];
