import type { Random } from '../../support/random.ts';
import type { Line, Member } from '../world/fleet.ts';
import type { Passage, Trigger } from '../world/tap.ts';

/** A moment of a worker's work, as it shows in what it says on one of its lines. */
export type Moment = Readonly<{
  line: Line;
  marker: RegExp;
  on: Trigger['on'];
  /** Between which of its occurrences it strikes, counted from 1. */
  nth: readonly [number, number];
  /** How long after the moment the kill comes, at most. */
  laterMs?: number;
  /** The run that is at that moment, as far as the text of the request tells. */
  runIn?: (text: string) => string | undefined;
  /** Another harm than a kill, in some of the cases. True: it is done. */
  instead?: (passage: Passage) => boolean;
}>;

/** Kills the member at some occurrence of the moment; one that is spared dies at another one. */
export function killAt(member: Member, random: Random, moment: Moment): void {
  const { line, marker, on, nth, laterMs = 0, runIn = () => undefined, instead = () => false } = moment;
  const again = (): void => killAt(member, random, moment);
  member.taps[line]?.arm({
    marker,
    on,
    nth: random.between(...nth),
    strike(passage, text) {
      if (instead(passage)) {
        again();
        return 'lost';
      }
      if (laterMs > 0) {
        setTimeout(() => member.kill() || again(), random.between(0, laterMs));
        return 'passed';
      }
      if (member.kill(runIn(text))) return 'lost';
      again();
      return 'passed';
    },
  });
}
