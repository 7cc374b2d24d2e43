import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { writeAtomically } from '../../src/tools/workspace/atomic-write.ts';
import { openFolder } from '../../src/tools/workspace/workspace-folder.ts';
import { resolveInWorkspace } from '../../src/tools/workspace/workspace-path.ts';
import { takeWriteLock } from '../../src/tools/workspace/write-lock.ts';
import { createFixture } from './workspace-fixture.ts';

const WORKER = new URL('./edit-worker.ts', import.meta.url).pathname;
const EDITS = 300;
const { signal } = new AbortController();
/** Takes the other one for dead as soon as it shows no sign of life between two looks, and gives none itself. */
const HASTY = { refreshMs: 3_600_000, deadAfterMs: 0, giveUpAfterMs: 60_000 };
const PATIENT = { refreshMs: 3_600_000, deadAfterMs: 3_600_000, giveUpAfterMs: 0 };

async function createFile() {
  const workspace = await createFixture();
  await workspace.put('file.txt', 'old');
  const path = await resolveInWorkspace(workspace.root, 'file.txt');
  const folder = await openFolder({ root: path.root, real: path.root });
  return {
    root: workspace.root,
    path,
    read: (): Promise<string> => readFile(path.real, 'utf8'),
    takeTurn: (times = HASTY) => takeWriteLock(folder, path, signal, times),
    async [Symbol.asyncDispose]() {
      await folder[Symbol.asyncDispose]();
      await workspace[Symbol.asyncDispose]();
    },
  };
}

describe('the lock to write a file', () => {
  it('is one of all processes: two that edit a file at once lose nothing', async () => {
    await using workspace = await createFixture();
    const lines = (state: string) => Array.from({ length: EDITS }, (_, no) => `slot-${no}: ${state};`).join('\n');
    await workspace.put('shared.txt', lines('todo'));
    const workers = [0, EDITS / 2].map((first) =>
      spawn(process.execPath, [WORKER, workspace.root, String(first), String(first + EDITS / 2)], {
        stdio: ['pipe', 'pipe', 'inherit'],
      }),
    );
    await Promise.all(workers.map((worker) => once(worker.stdout, 'data')));
    for (const worker of workers) worker.stdin.write('go');
    const ends = await Promise.all(workers.map((worker) => once(worker, 'exit')));
    expect(ends.map(([code]) => code)).toEqual([0, 0]);
    expect(await readFile(join(workspace.root, 'shared.txt'), 'utf8')).toBe(lines('done'));
    expect(await readdir(workspace.root)).toEqual(['shared.txt']);
  });

  it('is waited for, with an end', async () => {
    await using file = await createFile();
    {
      await using lock = await file.takeTurn();
      await expect(file.takeTurn(PATIENT)).rejects.toMatchObject({ code: 'FILE_BUSY' });
      await lock.draft.writeFile('new');
      expect(await lock.commit()).toBe(true);
    }
    expect([await file.read(), await readdir(file.root)]).toEqual(['new', ['file.txt']]);
  });

  it('is taken from a process that shows no sign of life, which can change nothing any more', async () => {
    await using file = await createFile();
    {
      await using slow = await file.takeTurn();
      await slow.draft.writeFile('late');
      await using next = await file.takeTurn();
      await next.draft.writeFile('new');
      expect(await slow.commit()).toBe(false);
      await slow[Symbol.asyncDispose]();
      expect(await next.commit()).toBe(true);
    }
    expect([await file.read(), await readdir(file.root)]).toEqual(['new', ['file.txt']]);
  });

  it('is over as soon as its folder is moved aside, whatever is still in that', async () => {
    await using file = await createFile();
    await using slow = await file.takeTurn();
    await slow.draft.writeFile('late');
    const [lock = ''] = (await readdir(file.root)).filter((name) => name.startsWith('.write-'));
    await rename(join(file.root, lock), join(file.root, 'aside'));
    expect(await slow.commit()).toBe(false);
    expect([await file.read(), await readdir(join(file.root, 'aside'))]).toEqual(['old', [expect.any(String)]]);
  });

  it('does not hide what others write without one: the change is worked out anew', async () => {
    await using file = await createFile();
    const read: string[] = [];
    const rewrite = async () => {
      const text = await file.read();
      read.push(text);
      if (read.length === 1) await writeFile(file.path.real, 'by a build');
      return { bytes: Buffer.from(`${text}, edited`), result: text };
    };
    expect(await writeAtomically(file.path, rewrite, signal)).toEqual({ result: 'by a build', isNew: false });
    expect([await file.read(), read]).toEqual(['by a build, edited', ['old', 'by a build']]);
    expect(await readdir(file.root)).toEqual(['file.txt']);
  });

  it('gives up on a file that others change again and again', async () => {
    await using file = await createFile();
    let no = 0;
    const rewrite = async () => {
      await writeFile(file.path.real, `by a build ${no++}`);
      return { bytes: Buffer.from('edited'), result: null };
    };
    await expect(writeAtomically(file.path, rewrite, signal)).rejects.toMatchObject({ code: 'FILE_BUSY' });
    expect([await file.read(), no]).toEqual(['by a build 9', 10]);
  });
});
