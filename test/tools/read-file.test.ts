import { truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { createFixture } from './workspace-fixture.ts';

const numbers = (count: number): string => Array.from({ length: count }, (_, index) => `line ${index + 1}\n`).join('');

describe('read_file', () => {
  it('numbers the lines and does not invent a last one after the final line break', async () => {
    await using workspace = await createFixture();
    await workspace.put('a.txt', 'one\n\nthree\n');
    expect(await workspace.call('read_file', { path: 'a.txt' })).toBe('     1\tone\n     2\t\n     3\tthree');
    await workspace.put('b.txt', 'no line break');
    expect(await workspace.call('read_file', { path: 'b.txt' })).toBe('     1\tno line break');
    await workspace.put('empty.txt', '');
    expect(await workspace.call('read_file', { path: 'empty.txt' })).toBe('[empty file]');
  });

  it('gives 2000 lines and the offset to go on from, until the file has been read exactly once', async () => {
    await using workspace = await createFixture();
    await workspace.put('big.txt', numbers(4_500));
    const seen: string[] = [];
    let offset = 1;
    for (let calls = 1; ; calls += 1) {
      const lines = (await workspace.call('read_file', { path: 'big.txt', offset })).split('\n');
      const next = /go on with offset (\d+)/.exec(lines.at(-1) ?? '')?.[1];
      seen.push(...lines.slice(0, 2_000).map((line) => `${line.split('\t')[1]}\n`));
      if (next === undefined) {
        expect(calls).toBe(3);
        break;
      }
      expect(lines).toHaveLength(2_001);
      offset = Number(next);
    }
    expect(seen.join('')).toBe(numbers(4_500));
  });

  it('does not say that there is more when the limit falls on the end', async () => {
    await using workspace = await createFixture();
    await workspace.put('a.txt', numbers(10));
    expect(await workspace.call('read_file', { path: 'a.txt', limit: 10 })).not.toContain('go on');
    expect(await workspace.call('read_file', { path: 'a.txt', limit: 9 })).toContain('go on with offset 10');
    expect(await workspace.call('read_file', { path: 'a.txt', offset: 10, limit: 1 })).toBe('    10\tline 10');
  });

  it('reads a small part of a file that is much larger than the memory it may use', async () => {
    await using workspace = await createFixture();
    await workspace.put('sparse.txt', 'a line\n'.repeat(5_000));
    await truncate(join(workspace.root, 'sparse.txt'), 8 * 1024 ** 3);
    expect(await workspace.call('read_file', { path: 'sparse.txt', offset: 4_000, limit: 2 })).toBe(
      '  4000\ta line\n  4001\ta line\n[cut after line 4001: go on with offset 4002]',
    );
  });

  it('cuts long lines after 2000 characters and says how much is missing', async () => {
    await using workspace = await createFixture();
    await workspace.put('long.txt', `${'x'.repeat(300_000)}\n${'y'.repeat(2_000)}\nshort\n`);
    expect(await workspace.call('read_file', { path: 'long.txt' })).toBe(
      `     1\t${'x'.repeat(2_000)} [line cut: 298000 more characters]\n     2\t${'y'.repeat(2_000)}\n     3\tshort`,
    );
  });

  it('tells about CRLF, which the shown lines leave out', async () => {
    await using workspace = await createFixture();
    await workspace.put('dos.txt', 'one\r\ntwo\r\n');
    expect(await workspace.call('read_file', { path: 'dos.txt' })).toMatch(
      /^ {5}1\tone\n {5}2\ttwo\n\[lines end with CRLF/,
    );
  });

  it('refuses binary files, directories and special files', async () => {
    await using workspace = await createFixture();
    await workspace.put('image.png', Buffer.from([0x89, 0x50, 0x4e, 0x47, 0, 0, 0, 1]));
    await expect(workspace.call('read_file', { path: 'image.png' })).rejects.toMatchObject({
      code: 'BINARY_FILE',
      message: expect.stringContaining('8 bytes'),
    });
    await workspace.call('bash', { command: 'mkfifo pipe' });
    await expect(workspace.call('read_file', { path: 'pipe' })).rejects.toMatchObject({ code: 'NOT_A_FILE' });
  });

  it('makes invalid UTF-8 and a late NUL safe, and keeps characters whole across read boundaries', async () => {
    await using workspace = await createFixture();
    await workspace.put('latin.txt', Buffer.from([0x63, 0x61, 0x66, 0xe9, 0x0a]));
    expect(await workspace.call('read_file', { path: 'latin.txt' })).toBe('     1\tcaf\uFFFD');
    await workspace.put('late.txt', `${'x\n'.repeat(5_000)}a\u0000b`);
    expect(await workspace.call('read_file', { path: 'late.txt', offset: 5_001 })).toBe('  5001\ta\uFFFDb');
    await workspace.put('euro.txt', `a${'€\n'.repeat(30_000)}`);
    for (let offset = 15_000; offset < 18_000; offset += 1_500) {
      const text = await workspace.call('read_file', { path: 'euro.txt', offset, limit: 1_500 });
      expect(text).not.toContain('\uFFFD');
    }
  });

  it('never ends a cut line in half a character', async () => {
    await using workspace = await createFixture();
    await workspace.put('emoji.txt', `a${'😀'.repeat(2_000)}\n`);
    expect((await workspace.call('read_file', { path: 'emoji.txt' })).isWellFormed()).toBe(true);
  });

  it('names the number of lines when the offset is beyond the end, and refuses more than the maximum', async () => {
    await using workspace = await createFixture();
    await workspace.put('a.txt', numbers(3));
    await expect(workspace.call('read_file', { path: 'a.txt', offset: 4 })).rejects.toMatchObject({
      code: 'OFFSET_BEYOND_END',
      message: expect.stringContaining('3 lines'),
    });
    await expect(workspace.call('read_file', { path: 'a.txt', limit: 2_001 })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
    });
  });

  it('stops reading when the call is aborted', async () => {
    await using workspace = await createFixture();
    await workspace.put('sparse.txt', 'y\n'.repeat(4_500));
    await truncate(join(workspace.root, 'sparse.txt'), 64 * 1024 ** 3);
    const controller = new AbortController();
    const reading = workspace.call('read_file', { path: 'sparse.txt', offset: 1_000_000 }, controller.signal);
    controller.abort(new Error('cancelled'));
    await expect(reading).rejects.toMatchObject({ code: 'ABORTED' });
  });
});
