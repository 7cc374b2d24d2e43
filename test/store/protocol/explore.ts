import fc from 'fast-check';
import type { Db } from '../../../src/store/db/database.ts';
import type { Act } from './acts.ts';
import { type Choice, choices, toAct } from './choices.ts';
import type { Connections } from './interleaving.ts';
import { watchNeighbours } from './neighbour.ts';
import { openPlay, type Play } from './play.ts';

type Setting = Readonly<{ play: Play; scheduler: fc.Scheduler }>;
type Command = fc.AsyncCommand<Setting, object>;

const one = (choice: Choice): Command => ({
  check: ({ play }) => toAct(play.known(), choice) !== null,
  async run({ play }) {
    const act = toAct(play.known(), choice);
    if (act !== null) await play.one(act);
  },
  toString: () => tell(choice),
});

/** Acts on connections of their own. A worker does one thing at a time. */
const together = (several: readonly Choice[]): Command => ({
  check: ({ play }) => actsOf(play, several).length > 1,
  run: ({ play, scheduler }) => play.together(scheduler, actsOf(play, several)),
  toString: () => `[${several.map(tell).join(' | ')}]`,
});

function actsOf(play: Play, several: readonly Choice[]): Act[] {
  const acts = several.map((choice) => toAct(play.known(), choice)).filter((act) => act !== null);
  const workerOf = (act: Act): string | Act =>
    'hand' in act ? act.hand.claimId : 'claimId' in act ? act.claimId : act;
  return acts.filter((act, no) => acts.findIndex((other) => workerOf(other) === workerOf(act)) === no);
}

const tell = ({ act, pick, way }: Choice): string => `${act}(${pick}, ${way})`;

const COMMANDS = [choices.map(one), choices.map(one), fc.array(choices, { minLength: 2, maxLength: 3 }).map(together)];

/**
 * Plays so many sessions with the functions of a database, each by up to 60 acts, and compares each of them with the
 * model. @throws with the seed and the acts that show it
 */
export async function exploreProtocol(
  db: Db,
  connections: Connections,
  parameters: Pick<fc.Parameters<unknown>, 'numRuns' | 'seed' | 'endOnFailure'>,
): Promise<void> {
  await watchNeighbours(db);
  const plays = fc.commands(COMMANDS, { maxCommands: 60, size: 'max' });
  const isAsPredicted = fc.asyncProperty(plays, fc.scheduler(), async (commands, scheduler) => {
    const play = await openPlay(db, connections);
    await fc.asyncModelRun(() => ({ model: { play, scheduler }, real: {} }), commands);
    await play.playOut();
  });
  await fc.assert(isAsPredicted, parameters);
}
