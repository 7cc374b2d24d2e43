import { describe, expect, it } from 'vitest';
import { readPattern } from '../../src/domain/patterns.ts';

describe('a pattern of a schema', () => {
  it.each<[string, string, fits: string[], not: string[]]>([
    ['of JavaScript stays', '^(?<y>\\p{L}+)-\\k<y>$', ['é-é'], ['é-e']],
    ['with needless escapes', '^[\\w\\_\\"]+\\-\\_\\@\\ $', ['a_"-_@ '], ['a-_@', 'a\\-_@ ']],
    ['with an escaped umlaut and emoji', '^\\ü\\😀$', ['ü😀'], ['ü']],
    ['with a hyphen beside a set', '^[\\w-.]+@[.-\\d]+$', ['a-b.c@-.1'], ['a,b@1', 'a@/']],
    ['with brackets of their own', '^a{b}]$', ['a{b}]'], ['ab']],
    ['with a named group and its reference', '^(?P<day>\\d)-(?P=day)$', ['1-1'], ['1-2']],
    ['with words that stand in a class', '^[(?P<\\_]+$', ['(?P<_'], ['y']],
    ['with an escaped bracket before such words', '^\\(?P<\\_$', ['(P<_', 'P<_'], ['?P<_']],
    ['with a bracket that is escaped', '^[\\]\\_^][^^\\_]$', [']a', '_a'], ['a^', 'aa']],
    ['with anchors of the text', '\\A\\d+\\Z', ['12'], ['12\n', 'a12', 'AZ']],
    ['with a bell', '^\\a[\\a]$', ['\u0007\u0007'], ['aa']],
    ['with at most so many', '^a{,2}$', ['', 'aa'], ['aaa', 'a{,2}']],
  ])('%s: %s', (_name, pattern, fits, not) => {
    const read = readPattern(pattern);
    if ('problem' in read) throw new Error(read.problem);
    const expression = new RegExp(read.source, 'u');
    expect([...fits, ...not].filter((text) => expression.test(text))).toEqual(fits);
  });

  it('is the same text where JavaScript reads it', () => {
    expect(readPattern('^\\w+\\.$')).toEqual({ source: '^\\w+\\.$' });
  });

  it.each([
    [
      '(?i)yes',
      'JavaScript does not read (?i) as other languages do: write the pattern without flags, as [aA] for either case',
    ],
    ['a(?s-m:.)b(?>c)', 'JavaScript does not read (?s-m:'],
    ['(?>a)b', 'JavaScript does not read (?>'],
    ['(a)?(?(1)b|c)', 'JavaScript does not read (?('],
    ['a(?#why)', 'JavaScript does not read (?#'],
    ['(a(?R)?b)', 'JavaScript does not read (?R'],
    ['a++', 'JavaScript does not read ++ as other languages do: leave out the last +'],
    ['\\Qa.b\\E', 'JavaScript cannot read it: invalid escape'],
    ['(?\\<y>a)', 'JavaScript cannot read it: invalid group'],
    ['[\\Z]', 'JavaScript cannot read it: invalid escape'],
    ['[]a]', 'JavaScript does not read []'],
    ['[^]a]', 'JavaScript does not read [^]'],
    ['(', 'JavaScript cannot read it: unterminated group'],
    ['[a\\', 'JavaScript cannot read it'],
  ])('that has no meaning in JavaScript is refused in words: %s', (pattern, words) => {
    expect(readPattern(pattern)).toEqual({ problem: expect.stringContaining(words) });
  });
});
