import { globSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../support/eventually.ts';
import * as administration from './acts-of-administration.ts';
import * as keys from './acts-of-keys.ts';
import * as messages from './acts-of-messages.ts';
import * as puts from './acts-of-puts.ts';
import * as sessions from './acts-of-sessions.ts';
import { type Act, DOORS, SHARED, WITHOUT_ACT } from './doors.ts';
import { beginTrace, openWorld, type Place, type Trace, type World } from './world.ts';

const ROOT = path.join(import.meta.dirname, '../..');
/** Effects follow a commit, and some doors do not wait for them. */
const MOST_LOOKS = 500;

/** Keys at the end: as soon as there is one, every request needs one. */
const ACTS: readonly Act[] = [messages, sessions, administration, puts, keys].flatMap((acts) =>
  Object.values<Act>(acts),
);

let world: World;
beforeAll(async () => {
  world = await openWorld();
});
afterAll(() => world[Symbol.asyncDispose]());

const NOTHING: Trace = { audit: [], events: [], jobs: 0, isAnnounced: true, stops: 0, ended: 0, object: null };

type Way = Readonly<{ prepare: (world: World) => Promise<Place>; act: Act['command'] }>;

/** Acts, and reads what that has left: as soon as it is what was expected, or else at last. */
async function traceOf({ prepare, act }: Way, expected: Trace): Promise<Trace> {
  const place = await prepare(world);
  const readTrace = await beginTrace(world, place);
  const after = (await act(world, place)) ?? place;
  let looks = 0;
  return eventually(async () => {
    const trace = await readTrace(after);
    looks += 1;
    return looks > MOST_LOOKS || isDeepStrictEqual(trace, expected) ? trace : null;
  }, 'the act has its effects');
}

describe.each(ACTS)('who $name', ({ prepare, command, leaves, doors }) => {
  const offered = Object.entries(doors).flatMap(([door, cell]) => ('act' in cell ? [[door, cell] as const] : []));
  it.each([['command', { act: command }] as const, ...offered])(
    'leaves by %s all that the act leaves',
    async (_, cell) => {
      const expected = { ...NOTHING, ...leaves };
      expect(await traceOf({ prepare, ...cell }, expected)).toEqual(expected);
    },
  );
});

describe('the commands', () => {
  it('are all in the table', () => {
    const files = readdirSync(path.join(ROOT, 'src/commands')).map((file) => path.basename(file, '.ts'));
    const known = new Set([...ACTS.map(({ file }) => file), ...Object.keys(WITHOUT_ACT)]);
    expect(new Set(files)).toEqual(known);
  });

  it('are called by doors of the table alone', () => {
    // Workers call after-commit, too, for what no caller asked for.
    const callers = globSync('src/**/*.ts', { cwd: ROOT }).filter(
      (file) =>
        !file.startsWith('src/commands/') &&
        /from '[./]*\/commands\/(?!after-commit\.ts')/.test(readFileSync(path.join(ROOT, file), 'utf8')),
    );
    const ofDoors = Object.values(DOORS).flat();
    const strangers = callers.filter((file) => !SHARED.includes(file) && !ofDoors.some((own) => file.startsWith(own)));
    expect(strangers).toEqual([]);
  });
});
