import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { createFixture } from './workspace-fixture.ts';

describe('edit_file', () => {
  it('replaces text that occurs once and takes the new text literally', async () => {
    await using workspace = await createFixture();
    await workspace.put('a.txt', '\uFEFFone\ntwo\nthree\n');
    expect(await workspace.call('edit_file', { path: 'a.txt', oldText: 'two\n', newText: "$& $1 $' zwei\n" })).toBe(
      'Replaced 1 occurrence in a.txt (at line 2; now 27 bytes).',
    );
    expect(await readFile(join(workspace.root, 'a.txt'), 'utf8')).toBe("\uFEFFone\n$& $1 $' zwei\nthree\n");
  });

  it('refuses text that occurs more than once, with the lines, unless all are to be replaced', async () => {
    await using workspace = await createFixture();
    await workspace.put('a.txt', 'x\ny\nx x\n');
    await expect(workspace.call('edit_file', { path: 'a.txt', oldText: 'x', newText: 'z' })).rejects.toMatchObject({
      code: 'EDIT_NOT_UNIQUE',
      message: expect.stringMatching(/3 times \(lines 1, 3, 3\).*replaceAll/),
    });
    expect(await readFile(join(workspace.root, 'a.txt'), 'utf8')).toBe('x\ny\nx x\n');
    await workspace.call('edit_file', { path: 'a.txt', oldText: 'x', newText: '', replaceAll: true });
    expect(await readFile(join(workspace.root, 'a.txt'), 'utf8')).toBe('\ny\n \n');
  });

  it.each([
    ['other white space', 'a\n\tfoo();\n', '  foo();', /Line 2 is like/],
    ['line numbers copied along', 'a\nb\n', '     1\ta\n     2\tb', /line numbers/],
    ['CRLF line breaks', 'a\r\nb\r\n', 'a\nb', /CRLF/],
    ['nothing alike', 'a\n', 'zzz', /Read the file again/],
  ])('says what to do when the text is not found: %s', async (_, content, oldText, message) => {
    await using workspace = await createFixture();
    await workspace.put('a.txt', content);
    await expect(workspace.call('edit_file', { path: 'a.txt', oldText, newText: 'x' })).rejects.toMatchObject({
      code: 'EDIT_NO_MATCH',
      message: expect.stringMatching(message),
    });
  });

  it('refuses what is not UTF-8 text and edits that change nothing', async () => {
    await using workspace = await createFixture();
    await workspace.put('latin.txt', Buffer.from([0x61, 0xe9]));
    const edit = (oldText: string, newText: string): Promise<string> =>
      workspace.call('edit_file', { path: 'latin.txt', oldText, newText });
    await expect(edit('a', 'b')).rejects.toMatchObject({ code: 'BINARY_FILE' });
    expect(await readFile(join(workspace.root, 'latin.txt'))).toEqual(Buffer.from([0x61, 0xe9]));
    await workspace.put('latin.txt', 'a');
    await expect(edit('a', 'a')).rejects.toMatchObject({ code: 'EDIT_NO_CHANGE' });
    await expect(edit('', 'a')).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  });

  it('loses no edit when several calls change one file at once', async () => {
    await using workspace = await createFixture();
    const marks = Array.from({ length: 30 }, (_, index) => `<${index}>`);
    await workspace.put('a.txt', marks.join('\n'));
    await Promise.all(
      marks.map((mark) => workspace.call('edit_file', { path: 'a.txt', oldText: mark, newText: `done ${mark}` })),
    );
    expect(await readFile(join(workspace.root, 'a.txt'), 'utf8')).toBe(marks.map((mark) => `done ${mark}`).join('\n'));
  });
});
