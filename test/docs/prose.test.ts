import { describe, expect, it } from 'vitest';
import { readPage } from '../support/pasted.ts';
import { GENERATED, pageNames } from './page-names.ts';

const LONGEST = 200;

/** The lines of a page that are neither code, table, heading, picture nor HTML, with their numbers. */
function* proseOf(page: string): Generator<Readonly<{ line: string; number: number }>> {
  let isCode = false;
  for (const [index, line] of page.split('\n').entries()) {
    const text = line.trimStart();
    if (text.startsWith('```')) isCode = !isCode;
    else if (!isCode && !/^(?:[|#<]|!\[)/.test(text)) yield { line, number: index + 1 };
  }
}

/** Code and addresses of links become letters, and a bold label in front of its sentence goes. */
const withoutCode = (line: string): string =>
  line
    .replaceAll(/`[^`]*`/g, 'Code')
    .replaceAll(/\]\([^)]*\)/g, ']')
    .replace(/^\s*(?:(?:[-*+>]|\d+\.)\s+)?(?:\*\*[^*]+\*\*)?/, '');

/** Whether a sentence ends before the line does. What is in brackets belongs to the sentence around them. */
function holdsTwoSentences(line: string): boolean {
  const text = withoutCode(line).replaceAll(/\([^()]*\)/g, '()');
  return [...text.matchAll(/[.!?]['")*’”\]]*\s+(?=[A-Z"“([*_‘])/g)].some(
    ({ index }) => !/\b(?:e\.g|i\.e|etc|vs|cf)$/.test(text.slice(0, index)),
  );
}

describe('the prose of the pages', () => {
  it('has one sentence a line, and no line that is too long', async () => {
    const wrong: string[] = [];
    for (const page of (await pageNames()).filter((name) => !GENERATED.includes(name))) {
      for (const { line, number } of proseOf(await readPage(page))) {
        if (line.length > LONGEST) wrong.push(`${page}:${number} has ${line.length} characters`);
        if (holdsTwoSentences(line)) wrong.push(`${page}:${number} holds two sentences: ${line}`);
      }
    }
    expect(wrong).toEqual([]);
  });

  it.each([
    ['README.md', 9_000],
    ['ARCHITECTURE.md', 22_528],
    ['AGENTS.md', 12_500],
  ])('lets %s be read at one go: at most %i bytes', async (page, most) => {
    expect(Buffer.byteLength(await readPage(page))).toBeLessThanOrEqual(most);
  });

  it.each([
    ['A step commits. It commits once.', true],
    ['- **Jobs.** A job carries ids.', false],
    ['- **Jobs.** A job carries ids. `runs` has more.', true],
    ['See `a. B` and [c](d. E) for more (F. G.) there.', false],
    ['Some words, e.g. Words.', false],
  ])('is read so: %s', (line, isWrong) => {
    expect(holdsTwoSentences(line)).toBe(isWrong);
  });
});
