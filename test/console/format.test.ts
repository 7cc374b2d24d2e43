import { describe, expect, it } from 'vitest';
import { plainWords } from '../../console/src/format.ts';

describe('the words of a message in a list', () => {
  it.each([
    ['Charged **by weight**: see `rule`.', 'Charged by weight: see rule.'],
    ['## Answer\n\n- one\n- two\n1. three', 'Answer one two three'],
    ['See [the manual](https://x.example/a) and ![a box](box.png)', 'See the manual and a box'],
    ['| a | b |\n|---|---|\n| 1 | 2 |', '| a | b | | 1 | 2 |'],
    ['```js\nlet a = 2 * 3 * 4;\n```', 'let a = 2 * 3 * 4;'],
    ['snake_case_name, 2 * 3 and a **', 'snake_case_name, 2 * 3 and a **'],
    ['*so* it is ~~not~~ __here__', 'so it is not here'],
  ])('%j', (markdown, words) => {
    expect(plainWords(markdown)).toBe(words);
  });
});
