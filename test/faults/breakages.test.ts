import { spawnSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { childEnvironment } from '../support/child-environment.ts';
import type { Breakage } from './breakage.ts';
import { BREAKAGES, foundOut } from './breakages.ts';
import { FAULTS } from './catalogue.ts';
import { LATE_ENDS, NEWER_VERSION } from './strikes/jobs.ts';
import { copyProduct } from './strikes/product-copy.ts';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'baton-breakage-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Breakages that change different files share a copy: a start of the suite takes seconds. */
function shareCopies(): readonly (readonly Breakage[])[] {
  const groups: Breakage[][] = [];
  for (const breakage of BREAKAGES) {
    const files = new Set(breakage.changes.map(({ file }) => file));
    const isApart = (group: readonly Breakage[]): boolean =>
      group.every(({ changes }) => changes.every(({ file }) => !files.has(file)));
    const group = groups.find(isApart);
    if (group === undefined) groups.push([breakage]);
    else group.push(breakage);
  }
  return groups;
}

it.each(shareCopies().map((group) => ({ names: group.map(({ name }) => name).join(', '), group })))(
  'breaking on purpose still works: $names',
  async ({ group }) => {
    // Node's compile cache finds a module by its path, so each copy takes the place of the one before it.
    await rm(join(folder, 'copy'), { recursive: true, force: true });
    // `copyProduct` throws when a text that it is to change is no longer there.
    const changes = group.flatMap((breakage) => breakage.changes);
    const copy = await copyProduct(join(folder, 'copy'), changes);
    const env = childEnvironment({ NODE_COMPILE_CACHE: join(folder, 'compiled') });
    const asked = spawnSync(process.execPath, [join(copy, 'test/faults/run.ts'), '--only', 'no such fault'], { env });
    // The suite of the copy starts, and refuses the unknown fault.
    expect([asked.status, String(asked.stderr)]).toEqual([2, expect.stringContaining('there is no such fault')]);
  },
);

it.each([
  ['late ends', LATE_ENDS],
  ['a newer version', NEWER_VERSION],
])('the product can be copied with %s', async (_name, changes) => {
  await rm(join(folder, 'copy'), { recursive: true, force: true });
  await copyProduct(join(folder, 'copy'), changes);
});

it.each(BREAKAGES)('the faults that find $name exist', ({ faults }) => {
  expect(FAULTS.map(({ name }) => name)).toEqual(expect.arrayContaining([...faults]));
});

it.each<[string, object, readonly string[]]>([
  ['a finding that is of what was broken', { unheardCancels: 2 }, ['unheardCancels']],
  ['a row that has missed what it was to strike', { missed: 1 }, []],
  ['a copy that crashes', { crashes: 3 }, []],
  ['a finding of another kind', { lostMessages: 1 }, []],
])('says what has found out a breakage: %s', (_what, counts, found) => {
  const row = { fault: 'none', backend: 'redis', runs: 1, ok: false, unheardCancels: 0, ...counts };
  expect(foundOut({ foundBy: ['unheardCancels'] }, [row])).toEqual(found);
});

it.each([
  ['--only', ['--only', 'none']],
  ['--json', ['--json']],
])('a breakage says itself how it must show: it is refused with %s', (option, others) => {
  const run = join(import.meta.dirname, 'run.ts');
  const asked = spawnSync(process.execPath, [run, '--broken', 'no-fence', ...others]);
  expect([asked.status, String(asked.stderr)]).toEqual([2, expect.stringContaining(`goes without ${option}`)]);
});
