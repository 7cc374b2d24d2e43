import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, realpath, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';
import { writeAtomically } from '../../src/tools/workspace/atomic-write.ts';
import { grepSearch } from '../../src/tools/workspace/grep-search.ts';
import { createFolderCursor, walk } from '../../src/tools/workspace/walk.ts';
import { WorkspaceError } from '../../src/tools/workspace/workspace-error.ts';
import {
  makeFolder,
  openFolder,
  openRegularFile,
  statInWorkspace,
} from '../../src/tools/workspace/workspace-folder.ts';
import { resolveInWorkspace, type WorkspacePath } from '../../src/tools/workspace/workspace-path.ts';
import { createFixture } from './workspace-fixture.ts';

const SECRET = 'outside-secret';
const OUTSIDE = { code: 'PATH_OUTSIDE_WORKSPACE' };
const { signal } = new AbortController();

/** A workspace whose folder `spot` can be swapped for a link to a folder outside that has the same names in it. */
async function createSpot() {
  const base = await realpath(await mkdtemp(join(tmpdir(), 'workspace-spot-')));
  const [root, inside, outside] = [join(base, 'root'), join(base, 'root/spot'), join(base, 'outside')];
  for (const folder of [inside, outside]) {
    await mkdir(join(folder, 'deep/er'), { recursive: true });
    for (const name of ['file.txt', 'deep/file.txt', 'deep/er/file.txt']) {
      await writeFile(join(folder, name), folder === inside ? 'inside' : SECRET);
    }
  }
  await writeFile(join(outside, 'only-outside.txt'), SECRET);
  const before = await readdir(outside, { recursive: true });
  return {
    root,
    inside,
    outside,
    resolve: (path: string): Promise<WorkspacePath> => resolveInWorkspace(root, path),
    async swap(): Promise<void> {
      await rename(inside, `${inside}-away`);
      await symlink(outside, inside);
    },
    async expectUntouched(): Promise<void> {
      expect(await readdir(outside, { recursive: true })).toEqual(before);
      expect(await readFile(join(outside, 'file.txt'), 'utf8')).toBe(SECRET);
    },
    [Symbol.asyncDispose]: () => rm(base, { recursive: true, force: true }),
  };
}

async function collect<T>(found: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const one of found) all.push(one);
  return all;
}

const grepIn = ({ root, real }: WorkspacePath) =>
  grepSearch({
    root,
    start: real,
    pattern: '.',
    ignoreCase: false,
    maxMatches: 10,
    maxLineChars: 100,
    maxFileBytes: 1_000,
  });

const rewrite = async () => ({ bytes: Buffer.from('x'), result: null });

const uses: readonly (readonly [string, string, (path: WorkspacePath) => Promise<unknown>])[] = [
  ['reading', 'spot/deep/file.txt', openRegularFile],
  ['replacing', 'spot/deep/file.txt', (path) => writeAtomically(path, rewrite, signal)],
  ['creating', 'spot/deep/new.txt', (path) => writeAtomically(path, rewrite, signal)],
  ['making folders', 'spot/deep/a/b/new.txt', (path) => writeAtomically(path, rewrite, signal)],
  ['listing', 'spot/deep', (path) => collect(walk(path, { recursive: true }))],
  ['looking at', 'spot/deep/file.txt', statInWorkspace],
  ['searching a folder', 'spot/deep/er', grepIn],
  ['searching a file', 'spot/deep/file.txt', grepIn],
];

describe('a folder that becomes a link to outside after its path was resolved', () => {
  it.each(uses)('stops %s by the path', async (_, path, use) => {
    await using spot = await createSpot();
    const resolved = await spot.resolve(path);
    await spot.swap();
    await expect(use(resolved)).rejects.toMatchObject(OUTSIDE);
    await spot.expectUntouched();
  });

  it('is not entered by a walk that saw a folder there', async () => {
    await using spot = await createSpot();
    await mkdir(join(spot.root, 'a'));
    await writeFile(join(spot.root, 'a/first.txt'), '');
    const entries = walk(await spot.resolve('.'), { recursive: true });
    const first = await entries.next();
    await spot.swap();
    const rest = await collect(entries);
    expect(first.value).toMatchObject({ real: join(spot.root, 'a') });
    expect(rest).toContainEqual({ real: spot.inside, kind: 'directory', notEntered: 'unreadable' });
    expect(JSON.stringify(rest)).not.toContain('only-outside');
  });

  it('does not lead the next file of a search outside', async () => {
    await using spot = await createSpot();
    await using cursor = createFolderCursor(spot.root);
    await cursor.folderOf(join(spot.root, 'other.txt'));
    await spot.swap();
    await expect(cursor.folderOf(join(spot.inside, 'deep/file.txt'))).rejects.toMatchObject(OUTSIDE);
  });

  it.skipIf(!existsSync('/proc/self/fd'))('does not move a folder that is held open', async () => {
    await using spot = await createSpot();
    await using folder = await openFolder(await spot.resolve('spot'));
    await using made = await makeFolder(await spot.resolve('spot/deep/new'));
    await spot.swap();
    expect(await readFile(folder.pathOf('file.txt'), 'utf8')).toBe('inside');
    await writeFile(made.pathOf('written.txt'), 'x');
    await spot.expectUntouched();
  });

  it('never leads out, however often it is swapped while the tools work in it', async () => {
    await using workspace = await createFixture();
    const [inside, outside] = [join(workspace.root, 'spot'), join(workspace.base, 'outside')];
    for (const folder of [inside, outside]) {
      await mkdir(join(folder, 'deep'), { recursive: true });
      await writeFile(join(folder, 'deep/file.txt'), folder === inside ? 'inside' : SECRET);
    }
    const turns = new Int32Array(new SharedArrayBuffer(4));
    const racer = new Worker(new URL('../abuse/attack/link-race-thread.ts', import.meta.url), {
      workerData: { inside, outside, turns },
    });
    const seen: string[] = [];
    try {
      for (let round = 0; round < 1_000 || Atomics.load(turns, 0) < 1_000; round += 1) {
        seen.push(
          ...(await Promise.all([
            attempt('read_file', { path: 'spot/deep/file.txt' }),
            attempt('write_file', { path: `spot/deep/written-${round}.txt`, content: 'x' }),
            attempt('edit_file', { path: 'spot/deep/file.txt', oldText: 'secret', newText: 'changed' }),
            attempt('list_files', { path: 'spot/deep' }),
          ])),
        );
      }
    } finally {
      await racer.terminate();
    }
    expect(seen.filter((text) => text.includes(SECRET))).toEqual([]);
    expect(seen.filter((text) => text.includes(`${SECRET.length} bytes`))).toEqual([]);
    expect(await readdir(join(outside, 'deep'))).toEqual(['file.txt']);
    expect(await readFile(join(outside, 'deep/file.txt'), 'utf8')).toBe(SECRET);

    async function attempt(name: string, input: object): Promise<string> {
      try {
        return await workspace.call(name, input);
      } catch (error) {
        if (error instanceof WorkspaceError) return error.message;
        throw error;
      }
    }
  });
});
