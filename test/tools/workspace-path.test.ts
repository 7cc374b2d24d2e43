import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WorkspaceError } from '../../src/tools/workspace/workspace-error.ts';
import { createWorkspaceTools } from '../../src/tools/workspace/workspace-tools.ts';
import { contextOf, createFixture, type Fixture } from './workspace-fixture.ts';

const SECRET = 'outside-secret';
let workspace: Fixture;

/** base/outside/secret.txt, base/sibling-of-root, and a root full of links in every direction. */
beforeAll(async () => {
  workspace = await createFixture();
  const { base, root } = workspace;
  await mkdir(join(base, 'outside'));
  await mkdir(join(base, 'root-sibling'));
  await writeFile(join(base, 'outside/secret.txt'), SECRET);
  await writeFile(join(base, 'root-sibling/secret.txt'), SECRET);
  await workspace.put('file.txt', 'inside');
  await workspace.put('dir/file.txt', 'inside');
  await symlink('../outside', join(root, 'out'));
  await symlink(join(base, 'outside'), join(root, 'out-absolute'));
  await symlink('../../outside/secret.txt', join(root, 'dir/secret.txt'));
  await symlink('..', join(root, 'dir/up'));
  await symlink('../..', join(root, 'dir/up-up'));
  await symlink('../outside/new.txt', join(root, 'dangling-out'));
  await symlink('dir/new.txt', join(root, 'dangling-in'));
  await symlink('dir/up/dangling-out', join(root, 'chain'));
  await symlink('loop', join(root, 'loop'));
  await symlink('dir/file.txt', join(root, 'link.txt'));
});
afterAll(() => workspace[Symbol.asyncDispose]());

const escapes = [
  '..',
  '../outside/secret.txt',
  '../root-sibling/secret.txt',
  // The answer must not tell that there is a file outside, where a folder would have to be.
  '../outside/secret.txt/below',
  'dir/../../outside/secret.txt',
  '/etc/passwd',
  'out',
  'out/secret.txt',
  'out-absolute/secret.txt',
  'out/missing/deep.txt',
  'dir/secret.txt',
  'dir/up-up/outside/secret.txt',
  'dangling-out',
  'chain',
];

describe('paths of the workspace tools', () => {
  it.each(escapes)(
    'refuses %s in every file tool with a typed error that shows no path above the root',
    async (path) => {
      const calls: readonly [string, object][] = [
        ['list_files', { path }],
        ['read_file', { path }],
        ['grep', { path, pattern: '.' }],
        ['write_file', { path, content: 'x' }],
        ['edit_file', { path, oldText: 'outside', newText: 'x' }],
      ];
      for (const [name, input] of calls) {
        const error: unknown = await workspace.call(name, input).catch((caught: unknown) => caught);
        expect(error).toMatchObject({ name: 'WorkspaceError', code: 'PATH_OUTSIDE_WORKSPACE' });
        expect(String(error)).not.toContain(workspace.base);
      }
      await expectOutsideUnchanged();
    },
  );

  it('refuses an absolute path next to the root that begins like it, and accepts one inside', async () => {
    const sibling = `${workspace.root}-sibling/secret.txt`;
    await expect(workspace.call('read_file', { path: sibling })).rejects.toMatchObject({
      code: 'PATH_OUTSIDE_WORKSPACE',
    });
    expect(await workspace.call('read_file', { path: join(workspace.root, 'file.txt') })).toContain('inside');
  });

  it('follows links that stay inside, also to a file that does not exist yet', async () => {
    expect(await workspace.call('read_file', { path: 'link.txt' })).toContain('inside');
    expect(await workspace.call('read_file', { path: 'dir/up/dir/up/file.txt' })).toContain('inside');
    expect(await workspace.call('write_file', { path: 'dangling-in', content: 'made' })).toContain('dir/new.txt');
    expect(await readFile(join(workspace.root, 'dir/new.txt'), 'utf8')).toBe('made');
  });

  it('works with a root that is itself a symbolic link', async () => {
    await using other = await createFixture();
    await symlink(workspace.root, join(other.root, 'alias'));
    const root = join(other.root, 'alias');
    const read = createWorkspaceTools({ root }).find((tool) => tool.name === 'read_file');
    for (const path of ['file.txt', join(root, 'file.txt')]) {
      expect(await read?.execute({ path }, contextOf(new AbortController().signal))).toContain('inside');
    }
  });

  it.each([
    ['a\u0000b', 'PATH_INVALID'],
    ['loop', 'PATH_INVALID'],
    ['x'.repeat(5_000), 'PATH_INVALID'],
    ['missing.txt', 'NOT_FOUND'],
    ['file.txt/deeper', 'NOT_A_DIRECTORY'],
    ['dir', 'NOT_A_FILE'],
  ])('explains why %j cannot be read (%#)', async (path, code) => {
    const error: unknown = await workspace.call('read_file', { path }).catch((caught: unknown) => caught);
    expect(error).toMatchObject({ code });
    expect(String(error)).not.toContain(workspace.base);
    expect(String(error)).not.toContain('\u0000');
  });

  it('never reads or changes anything outside, whatever path is put together', async () => {
    const segment = fc.constantFrom(
      ...['..', '.', '', 'dir', 'up', 'up-up', 'out', 'out-absolute', 'outside', 'root', 'root-sibling', 'secret.txt'],
      ...['file.txt', 'dangling-out', 'chain', 'loop', 'missing', 'link.txt'],
    );
    const prefix = fc.constantFrom('', '/', `${workspace.root}/`, `${workspace.base}/`);
    const anyPath = fc
      .tuple(prefix, fc.array(segment, { minLength: 1, maxLength: 7 }))
      .map(([start, segments]) => start + segments.join('/'))
      .filter((path) => path !== '');
    await fc.assert(
      fc.asyncProperty(anyPath, async (path) => {
        const seen = await Promise.all([
          attempt('read_file', { path }),
          attempt('list_files', { path }),
          attempt('edit_file', { path, oldText: SECRET, newText: 'changed' }),
          attempt('edit_file', { path, oldText: 'not there', newText: 'changed' }),
        ]);
        expect(seen.join('\n')).not.toContain(SECRET);
        expect(seen.join('\n')).not.toContain('secret.txt\t');
      }),
    );
    await fc.assert(
      fc.asyncProperty(anyPath, async (path) => {
        // Below a name of its own: writing over the tree would take the links out of the way of later paths.
        await attempt('write_file', { path: `${path}/written.txt`, content: 'changed' });
      }),
    );
    await expectOutsideUnchanged();
  });
});

async function attempt(name: string, input: object): Promise<string> {
  try {
    return await workspace.call(name, input);
  } catch (error) {
    if (error instanceof WorkspaceError) return error.message;
    throw error;
  }
}

async function expectOutsideUnchanged(): Promise<void> {
  const { base } = workspace;
  expect((await readdir(base)).sort()).toEqual(['outside', 'root', 'root-sibling']);
  for (const directory of ['outside', 'root-sibling']) {
    expect(await readdir(join(base, directory))).toEqual(['secret.txt']);
    expect(await readFile(join(base, directory, 'secret.txt'), 'utf8')).toBe(SECRET);
  }
}
