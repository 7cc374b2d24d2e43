import { spawnSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { BREAKAGES } from './breakages.ts';
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
