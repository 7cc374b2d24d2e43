import { symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { createFixture } from './workspace-fixture.ts';

describe('list_files', () => {
  it('lists one directory, sorted, with sizes, directories, links and special files marked', async () => {
    await using workspace = await createFixture();
    await workspace.put('b.txt', '12345');
    await workspace.put('a/inner.txt', '');
    await workspace.put('line\nbreak.txt', '');
    await symlink('b.txt', join(workspace.root, 'c'));
    await workspace.call('bash', { command: 'mkfifo pipe' });
    expect(await workspace.call('list_files', {})).toBe(
      ['a/', 'b.txt\t5 bytes', 'c@', '"line\\nbreak.txt"\t0 bytes', 'pipe\t[special file]'].join('\n'),
    );
  });

  it('lists everything below, but not the contents of .git and node_modules, and says so', async () => {
    await using workspace = await createFixture();
    await workspace.put('.git/HEAD', '');
    await workspace.put('src/node_modules/p/index.js', '');
    await workspace.put('src/a.ts', '1');
    await symlink('..', join(workspace.root, 'src/up'));
    expect(await workspace.call('list_files', { recursive: true })).toBe(
      [
        '.git/\t[contents not listed: skipped]',
        'src/',
        'src/a.ts\t1 bytes',
        'src/node_modules/\t[contents not listed: skipped]',
        'src/up@',
      ].join('\n'),
    );
    expect(await workspace.call('list_files', { path: 'src/node_modules', recursive: true })).toBe(
      'src/node_modules/p/\nsrc/node_modules/p/index.js\t0 bytes',
    );
  });

  it('stops at its limit and says that there is more', async () => {
    await using workspace = await createFixture({ listMaxEntries: 3 });
    for (const name of ['a', 'b', 'c']) await workspace.put(name, '');
    expect(await workspace.call('list_files', {})).not.toContain('stopped');
    await workspace.put('d', '');
    const lines = (await workspace.call('list_files', {})).split('\n');
    expect(lines).toHaveLength(4);
    expect(lines.at(-1)).toContain('stopped after 3 entries');
  });

  it('says when a directory is empty, does not exist or is a file', async () => {
    await using workspace = await createFixture();
    expect(await workspace.call('list_files', { path: '.' })).toBe('[empty directory]');
    await workspace.put('file', '');
    await expect(workspace.call('list_files', { path: 'file' })).rejects.toMatchObject({ code: 'NOT_A_DIRECTORY' });
    await expect(workspace.call('list_files', { path: 'nope' })).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });
});
