import { spawnSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { BREAKAGES, foundOut } from './breakages.ts';
import { FAULTS } from './catalogue.ts';
import { copyProduct } from './strikes/product-copy.ts';

it.each(BREAKAGES)('breaking on purpose still works: $name', async ({ changes, faults }) => {
  const folder = await mkdtemp(join(tmpdir(), 'baton-breakage-'));
  try {
    // It throws when what it wants to change is not there any more.
    const copy = await copyProduct(folder, changes);
    const asked = spawnSync(process.execPath, [join(copy, 'test/faults/run.ts'), '--only', 'no such fault']);
    // The suite of the copy can be started, and says what it does not know.
    expect([asked.status, String(asked.stderr)]).toEqual([2, expect.stringContaining('there is no such fault')]);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
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
