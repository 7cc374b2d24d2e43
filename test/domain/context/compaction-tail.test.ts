import { describe, expect, it } from 'vitest';
import {
  capResults,
  mandatoryStart,
  resultText,
  type TailOptions,
  tailStart,
} from '../../../src/domain/context/compaction/compaction-tail.ts';
import { shownParts } from '../../../src/domain/model/shown-parts.ts';
import type { Part, PartMarks, ViewMessage, ViewPart } from '../../../src/domain/transcript/message.ts';
import { countText } from './compaction-view.ts';
import { assistantOf, callOf, textOf, userOf } from './measure-view.ts';

/** `u` is a user message, `s` a step with a call, `a` an answer without one; each has 100 tokens unless given. */
const sized = (kinds: string, tokens: Readonly<Record<number, number>> = {}) =>
  [...kinds].map((kind, at) => ({
    message:
      kind === 'u'
        ? userOf(at + 1, textOf('Go on.'))
        : assistantOf(at + 1, ...(kind === 's' ? [callOf({}, 'ok')] : [textOf('Done.')])),
    tokens: tokens[at] ?? 100,
  }));

/** The tail, as letters. */
function tailOf(
  kinds: string,
  options: Partial<TailOptions> = {},
  tokens: Readonly<Record<number, number>> = {},
): string {
  return kinds.slice(tailStart(sized(kinds, tokens), { tailTokens: 250, roomTokens: 1_000, ...options }));
}

describe('what no compaction may take', () => {
  it.each([
    ['the results that no request has shown yet', 'uss', 's'],
    ['what the user said since, and the results before it', 'ussuu', 'suu'],
    ['what the user said after an answer, but not the answer', 'usau', 'u'],
    ['nothing after an answer', 'usa', ''],
    ['nothing of an empty view', '', ''],
  ])('is %s', (_what, kinds, kept) => {
    expect(kinds.slice(mandatoryStart(sized(kinds)))).toBe(kept);
  });
});

describe('the tail', () => {
  it('is the newest steps within their tokens', () => {
    expect(tailOf('ussssss')).toBe('ss');
  });

  it('holds what is mandatory however large it is', () => {
    expect(tailOf('usss', {}, { 3: 90_000 })).toBe('s');
  });

  it('never parts a step from its results: a message stays or goes whole', () => {
    expect(tailOf('ussss', {}, { 3: 151 })).toBe('s');
    expect(tailOf('ussss', {}, { 3: 150 })).toBe('ss');
  });

  it('holds more messages where the agent asks for them and there is room', () => {
    expect(tailOf('ussssss', { keepRecentMessages: 5 })).toBe('sssss');
    expect(tailOf('ussssss', { keepRecentMessages: 5, roomTokens: 300 })).toBe('sss');
  });

  it('holds whole turns where the agent asks for them', () => {
    expect(tailOf('usausaussa', { preserveLastNTurns: 1 })).toBe('ussa');
    expect(tailOf('usausaussa', { preserveLastNTurns: 2 })).toBe('usaussa');
  });

  it('takes user messages in a row for one turn', () => {
    expect(tailOf('usauussa', { preserveLastNTurns: 1 })).toBe('uussa');
  });

  it('is not longer than the room, although its own tokens would allow it', () => {
    expect(tailOf('ussssss', { tailTokens: 900, roomTokens: 300 })).toBe('sss');
  });
});

describe('results that are too large for the tail', () => {
  const read = (tokens: number, rest = {}): Part => callOf({ path: 'a.ts' }, 'x'.repeat(tokens * 4), rest);
  const capped = (...messages: ViewMessage[]) => capResults(messages, 500, countText);
  const marked = (tokens: number, marks: PartMarks): ViewPart => ({ ...read(tokens), marks });
  const marksOf = (...parts: ViewPart[]) => capped(assistantOf(1, ...parts)).marks.map(({ index }) => index);

  it('are shown by about as many tokens as they may have, and the others stay', () => {
    const { messages, marks } = capped(assistantOf(1, read(400), read(5_000)));
    expect(marks).toEqual([{ messageId: 'm1', index: 1, viewLimitChars: 2_000, originalTokens: 5_000 }]);
    const shown = shownParts(messages[0] as ViewMessage)[1];
    expect(shown?.type === 'tool' && countText(resultText(shown))).toBeLessThanOrEqual(500);
  });

  it('are shown by a few lines at least', () => {
    const { marks } = capResults([assistantOf(1, read(5_000))], 1, countText);
    expect(marks[0]?.viewLimitChars).toBe(400);
  });

  it('are left alone where they are errors, are not done, or are cleared already', () => {
    const error = read(5_000, { state: 'error', output: { type: 'error-text', value: 'x'.repeat(20_000) } });
    expect(marksOf(error)).toEqual([]);
    expect(marksOf(read(5_000, { state: 'running' }))).toEqual([]);
    expect(marksOf(marked(5_000, { pruned: true }))).toEqual([]);
  });

  it('are measured as they are shown: what was cut already is not cut again', () => {
    expect(marksOf(marked(5_000, { viewLimitChars: 1_500 }))).toEqual([]);
  });

  it('may be JSON: its text counts', () => {
    const json = read(0, { output: { type: 'json', value: { rows: Array(2_000).fill(1) } } });
    expect(marksOf(json)).toEqual([0]);
  });

  it('do not change the messages that they stand in', () => {
    const message = assistantOf(1, read(5_000));
    const before = JSON.stringify(message);
    capped(message);
    expect(JSON.stringify(message)).toBe(before);
  });
});
