import { once } from 'node:events';
import { symlink } from 'node:fs/promises';
import { join } from 'node:path';
import type { Worker } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';
import { createFixture } from './workspace-fixture.ts';

const CATASTROPHIC = { pattern: '^(a+)+$' };

describe('grep', () => {
  it('finds lines by regular expression, sorted, with paths from the root', async () => {
    await using workspace = await createFixture();
    await workspace.put('src/b.ts', 'const x = 1;\r\nlet y = 2;\r\n');
    await workspace.put('src/a.ts', '// nothing\nconst z = 3;');
    expect(await workspace.call('grep', { pattern: '^const \\w = \\d;$' })).toBe(
      'src/a.ts:2: const z = 3;\nsrc/b.ts:1: const x = 1;',
    );
    expect(await workspace.call('grep', { pattern: 'LET', path: 'src/b.ts', ignoreCase: true })).toBe(
      'src/b.ts:2: let y = 2;',
    );
    expect(await workspace.call('grep', { pattern: 'LET', path: 'src' })).toBe('No matches.');
  });

  it('searches only files that match a glob, by name or by path', async () => {
    await using workspace = await createFixture();
    for (const path of ['a.ts', 'src/b.ts', 'src/deep/c.js', '.github/d.ts']) await workspace.put(path, 'hit');
    const paths = async (input: object): Promise<string[]> =>
      (await workspace.call('grep', { pattern: 'hit', ...input })).split('\n').map((line) => line.split(':')[0] ?? '');
    expect(await paths({ glob: '*.ts' })).toEqual(['.github/d.ts', 'a.ts', 'src/b.ts']);
    expect(await paths({ glob: 'src/**/*.{ts,js}' })).toEqual(['src/b.ts', 'src/deep/c.js']);
    expect(await paths({ glob: 'deep/*.js', path: 'src' })).toEqual(['src/deep/c.js']);
  });

  it('leaves out binary files, links, .git and node_modules, and says what it did not search', async () => {
    await using workspace = await createFixture({ grepMaxFileBytes: 1_000 });
    await workspace.put('.git/config', 'hit');
    await workspace.put('node_modules/p.js', 'hit');
    await workspace.put('binary', Buffer.from('hit\u0000'));
    await workspace.put('large.txt', 'hit\n'.repeat(1_000));
    await workspace.put('text.txt', 'hit');
    await symlink('text.txt', join(workspace.root, 'link.txt'));
    await workspace.call('bash', { command: 'mkfifo pipe' });
    expect((await workspace.call('grep', { pattern: 'hit' })).split('\n')).toEqual([
      'text.txt:1: hit',
      expect.stringContaining('1 too large'),
      expect.stringContaining('2 directories not searched: .git and node_modules'),
    ]);
    expect(await workspace.call('grep', { pattern: 'hit', path: 'node_modules' })).toBe('node_modules/p.js:1: hit');
  });

  it('stops at 1000 matches or fewer, and only then says that there are more', async () => {
    await using workspace = await createFixture();
    await workspace.put('a.txt', 'hit\n'.repeat(1_000));
    expect((await workspace.call('grep', { pattern: 'hit' })).split('\n')).toHaveLength(1_000);
    await workspace.put('b.txt', 'hit');
    const lines = (await workspace.call('grep', { pattern: 'hit' })).split('\n');
    expect(lines).toHaveLength(1_001);
    expect(lines.at(-1)).toContain('stopped after 1000 matches');
    expect((await workspace.call('grep', { pattern: 'hit', maxMatches: 2 })).split('\n').slice(0, 2)).toEqual([
      'a.txt:1: hit',
      'a.txt:2: hit',
    ]);
    await expect(workspace.call('grep', { pattern: 'hit', maxMatches: 1_001 })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
    });
  });

  it('cuts long lines around the match', async () => {
    await using workspace = await createFixture();
    await workspace.put('min.js', `${'x'.repeat(100_000)}needle${'y'.repeat(100_000)}`);
    const line = await workspace.call('grep', { pattern: 'needle' });
    expect(line).toContain('xneedley');
    expect(line).toMatch(/^min\.js:1: \[99920 characters cut\] .* \[\d+ characters cut\]$/);
    expect(line.length).toBeLessThan(600);
  });

  it('explains an invalid pattern', async () => {
    await using workspace = await createFixture();
    await expect(workspace.call('grep', { pattern: 'foo(' })).rejects.toMatchObject({
      code: 'INVALID_PATTERN',
      message: expect.stringMatching(/foo\(.*backslash/),
    });
    await expect(workspace.call('grep', { pattern: 'x', path: 'missing' })).rejects.toMatchObject({
      code: 'NOT_FOUND',
    });
  });

  it('ends a catastrophic pattern at its time limit while this process goes on working', async () => {
    await using workspace = await createFixture({ grepTimeoutMs: 500 });
    await workspace.put('a.txt', `${'a'.repeat(60)}!`);
    let turns = 0;
    const timer = setInterval(() => {
      turns += 1;
    }, 10);
    await expect(workspace.call('grep', CATASTROPHIC)).rejects.toMatchObject({
      code: 'SEARCH_TIMEOUT',
      message: expect.stringContaining('Simplify'),
    });
    clearInterval(timer);
    expect(turns).toBeGreaterThan(1);
  });

  it('ends the thread of a catastrophic pattern when the call is aborted', async () => {
    await using workspace = await createFixture();
    await workspace.put('a.txt', `${'a'.repeat(60)}!`);
    const controller = new AbortController();
    const { promise: started, resolve: onThread } = Promise.withResolvers<Worker>();
    process.once('worker', onThread);
    const settled = expect(workspace.call('grep', CATASTROPHIC, controller.signal)).rejects.toMatchObject({
      code: 'ABORTED',
    });
    const thread = await started;
    const ended = once(thread, 'exit');
    await once(thread, 'online');
    controller.abort(new Error('cancelled'));
    await Promise.all([settled, ended]);
  });
});
