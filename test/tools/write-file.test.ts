import { readdirSync } from 'node:fs';
import { chmod, readdir, readFile, stat, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate as nextRound } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { createFixture } from './workspace-fixture.ts';

describe('write_file', () => {
  it('creates a file with its parents, replaces it, and reports bytes', async () => {
    await using workspace = await createFixture();
    const path = 'a/b/c.txt';
    expect(await workspace.call('write_file', { path, content: 'grüße' })).toBe('Created a/b/c.txt (7 bytes).');
    expect(await workspace.call('write_file', { path, content: '' })).toBe('Replaced a/b/c.txt (0 bytes).');
    expect(await readFile(join(workspace.root, path), 'utf8')).toBe('');
    expect(await readdir(join(workspace.root, 'a/b'))).toEqual(['c.txt']);
  });

  it('keeps permissions, and a symbolic link to a file inside stays a link', async () => {
    await using workspace = await createFixture();
    await workspace.put('run.sh', 'old');
    await chmod(join(workspace.root, 'run.sh'), 0o751);
    await symlink('run.sh', join(workspace.root, 'link'));
    await workspace.call('write_file', { path: 'link', content: 'new' });
    expect(await readFile(join(workspace.root, 'run.sh'), 'utf8')).toBe('new');
    expect((await stat(join(workspace.root, 'run.sh'))).mode & 0o777).toBe(0o751);
    expect((await readdir(workspace.root, { withFileTypes: true })).find((entry) => entry.isSymbolicLink())?.name).toBe(
      'link',
    );
  });

  it('shows a reader the old or the new content and never a part', async () => {
    await using workspace = await createFixture();
    const contents = ['a', 'b'].map((letter) => letter.repeat(2_000_000));
    await workspace.put('file.txt', contents[0] ?? '');
    let writing = true;
    const writes = (async () => {
      for (let round = 0; round < 20; round += 1) {
        await workspace.call('write_file', { path: 'file.txt', content: contents[round % 2] });
      }
      writing = false;
    })();
    while (writing) expect(contents.includes(await readFile(join(workspace.root, 'file.txt'), 'utf8'))).toBe(true);
    await writes;
  });

  it('refuses directories, files that are paths through files, and contents over the limit', async () => {
    await using workspace = await createFixture({ writeMaxBytes: 10 });
    await workspace.put('dir/file', 'x');
    const write = (path: string, content = ''): Promise<string> => workspace.call('write_file', { path, content });
    await expect(write('dir')).rejects.toMatchObject({ code: 'NOT_A_FILE' });
    await expect(write('.')).rejects.toMatchObject({ code: 'NOT_A_FILE' });
    await expect(write('dir/file/below')).rejects.toMatchObject({ code: 'NOT_A_DIRECTORY' });
    await expect(write('large', '€€€€')).rejects.toMatchObject({ code: 'FILE_TOO_LARGE' });
    expect(await readdir(workspace.root, { recursive: true })).toEqual(['dir', 'dir/file']);
  });

  it('leaves the old file and no temporary one when the call is aborted while it writes', async () => {
    await using workspace = await createFixture();
    await workspace.put('file.txt', 'old');
    const controller = new AbortController();
    const writing = workspace.call(
      'write_file',
      { path: 'file.txt', content: 'x'.repeat(9_000_000) },
      controller.signal,
    );
    const settled = expect(writing).rejects.toMatchObject({ code: 'ABORTED' });
    // Once a round of the event loop: writing this much and renaming takes several.
    while (readdirSync(workspace.root).length === 1) await nextRound();
    controller.abort(new Error('cancelled'));
    await settled;
    expect(await readFile(join(workspace.root, 'file.txt'), 'utf8')).toBe('old');
    expect(await readdir(workspace.root)).toEqual(['file.txt']);
  });
});
