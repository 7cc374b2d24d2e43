import { expect, test } from 'vitest';
import { oneLine, printable, printableJson } from '../../src/cli/terminal/words.ts';

test.each([
  ['colours and cursor moves', '\u001b[31mred\u001b[0m \u001b[2Jgone', 'red gone'],
  ['a window title', '\u001b]0;owned\u0007text', 'text'],
  ['C1 controls', 'a\u009b31mb\u0085c', 'abc'],
  ['a turned direction', 'invoice\u202efdp.exe\u202c', 'invoicefdp.exe'],
  ['isolates and marks', '\u2066a\u2067b\u2068c\u2069d\u200ee\u200ff\u061cg\u202ah\u202bi\u202dj', 'abcdefghij'],
])('a terminal is not given %s', (_name, text, shown) => {
  expect(printable(text)).toBe(shown);
  expect(oneLine(text, 100)).toBe(shown);
  const json = printableJson({ text });
  expect(json).toBe(printable(json));
  expect(JSON.parse(json)).toEqual({ text });
});

test('lines stay lines, and letters of any script are shown', () => {
  expect(printable('a\tb\nשלום\nüber 漢字 👩‍💻')).toBe('a  b\nשלום\nüber 漢字 👩‍💻');
});
