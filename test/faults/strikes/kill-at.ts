import type { Random } from '../../support/random.ts';
import type { Line, Member } from '../world/fleet.ts';
import { KILLS_OF_WORKERS, type Strikes } from '../world/strikes.ts';
import type { Passage, Trigger } from '../world/tap.ts';

/** A moment of a worker's work, as it shows in what it says on one of its lines. */
export type Moment = Readonly<{
  line: Line;
  marker: RegExp;
  on: Trigger['on'];
  /** Between which of its occurrences it strikes, counted from 1. */
  nth: readonly [number, number];
  /** The same for as long as nothing has been struck there: a row of a few runs has few occurrences. Default: `nth`. */
  firstNth?: readonly [number, number];
  /** What a strike there is counted as, where there are several moments. Each has to be struck. */
  name?: string;
  /** How long after the moment the kill comes, at most. */
  laterMs?: number;
  /** The run that is at that moment, as far as the text of the request tells. */
  runIn?: (text: string) => string | undefined;
  /** Another harm than a kill, in some of the cases. True: it is done. */
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

/** Kills the member at some occurrence of the moment; one that is spared dies at another one. */
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
