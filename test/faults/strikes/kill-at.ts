import type { Random } from '../../support/random.ts';
import type { Line, Member } from '../world/fleet.ts';
import { KILLS_OF_WORKERS, type Strikes } from '../world/strikes.ts';
import type { Passage, Trigger } from '../world/tap.ts';

/** A moment of a worker's work, recognised by the data that the worker sends on one of its lines. */
export type Moment = Readonly<{
  line: Line;
  marker: RegExp;
  on: Trigger['on'];
  /** Range of the occurrence at which the strike comes, counted from 1. */
  nth: readonly [number, number];
  /** The range until the first strike there: a row of a few runs has few occurrences. Default: `nth`. */
  firstNth?: readonly [number, number];
  /** Name under which strikes are counted, where a fault has several moments. Each moment has to be struck. */
  name?: string;
  /** Longest time from the moment to the kill. */
  laterMs?: number;
  /** Finds the run that is at this moment, if the text of the request names it. */
  runIn?: (text: string) => string | undefined;
  /** Does another harm than a kill, in some of the cases. True: it is done. */
  instead?: (passage: Passage) => boolean;
}>;

/** Kills each member at some occurrence of each of its moments. */
export const killAround =
  (momentsOf: (member: Member) => readonly Moment[]) =>
  (member: Member, random: Random, strikes: Strikes): void => {
    for (const [no, moment] of momentsOf(member).entries()) {
      killAt(member, random.fork(`moment ${no}`), strikes, moment);
    }
  };

/** Kills the member at some occurrence of the moment. A member that is spared dies at another occurrence. */
export function killAt(member: Member, random: Random, strikes: Strikes, moment: Moment): void {
  const { line, marker, on, nth, firstNth = nth, name, laterMs = 0 } = moment;
  const { runIn = () => undefined, instead = () => false } = moment;
  const count = (times: number): void => (name === undefined ? undefined : strikes.add(name, times));
  count(0);
  const again = (): void => killAt(member, random, strikes, moment);
  const kill = (runId?: string): boolean => {
    const isDead = member.kill(runId);
    if (isDead) count(1);
    else again();
    return isDead;
  };
  member.taps[line]?.arm({
    marker,
    on,
    nth: random.between(...(strikes.of(name ?? KILLS_OF_WORKERS) === 0 ? firstNth : nth)),
    strike(passage, text) {
      if (instead(passage)) {
        count(1);
        again();
        return 'lost';
      }
      if (laterMs > 0) {
        setTimeout(kill, random.between(0, laterMs));
        return 'passed';
      }
      return kill(runIn(text)) ? 'lost' : 'passed';
    },
  });
}
