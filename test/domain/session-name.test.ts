import { expect, test } from 'vitest';
import { firstWords, MAX_FIRST_WORDS_CHARS, nameOfSession } from '../../src/domain/run/session-name.ts';
import type { UserPart } from '../../src/domain/transcript/message.ts';

const text = (words: string): UserPart[] => [{ type: 'text', text: words }];
const file = (filename?: string, mediaType = 'image/png'): UserPart => ({
  type: 'file',
  mediaType,
  url: '@blob:blob_1',
  ...(filename !== undefined && { filename }),
});

test.each([
  ['Refund order-7, please.', 'Refund order-7, please.'],
  ['  two\n\nlines\tand\u2028more ', 'two lines and more'],
  ['# Fix **this** [page](https://example.com/a)\n> now', 'Fix this page now'],
  ['- [ ] buy `milk`\n* eggs\n---\n+ tea', 'buy milk eggs tea'],
  ['```ts\nconst a = 1;\n```\nWhy is `a` one?', 'Why is a one?'],
  ['~~~\nselect 1\n~~~', 'select 1'],
  ['![a harbor](x.png) paint it', 'a harbor paint it'],
  ['2 * 3 and snake_case and __init__', '2 * 3 and snake_case and __init__'],
  ['\u202Eevil\u0007 name', 'evil name'],
  ['  \n```\n```', null],
])('the first words of %j are %j', (said, words) => {
  expect(firstWords(text(said))).toBe(words);
});

test('first words are short, and end with a whole word where they have any', () => {
  const words = firstWords(text('harbor '.repeat(9_000))) ?? '';
  expect(words).toMatch(/^(harbor )+harbor…$/);
  expect(words.length).toBeLessThanOrEqual(MAX_FIRST_WORDS_CHARS);
  const one = firstWords(text('😀'.repeat(100))) ?? '';
  expect(one.length).toBeLessThanOrEqual(MAX_FIRST_WORDS_CHARS);
  expect(one).toMatch(/^(😀)+…$/u);
});

test('the words of a message go before its files, and files have their names, or their types', () => {
  expect(firstWords([file('bill.pdf'), ...text('Is it paid?')])).toBe('Is it paid?');
  expect(firstWords([file('bill.pdf'), file(), file(undefined, '')])).toBe('bill.pdf, image/png');
  expect(firstWords([])).toBeNull();
});

test('a session is named by its title, else its first words, else its key, else its agent', () => {
  const named = { title: 'T', firstWords: 'W', key: 'K', agent: 'A' };
  expect(nameOfSession(named)).toBe('T');
  expect(nameOfSession({ ...named, title: ' ' })).toBe('W');
  expect(nameOfSession({ ...named, title: null, firstWords: null })).toBe('K');
  expect(nameOfSession({ ...named, title: null, firstWords: null, key: null })).toBe('A');
});
