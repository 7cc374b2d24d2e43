import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseExactly, unholdableNumber, withPlainNumbers } from '../../src/domain/exact-json.ts';

const again = (text: string): string => JSON.stringify(parseExactly(text));

describe('JSON that is read exactly', () => {
  it.each([
    '2512292042121000001',
    '{"id":-9007199254740993}',
    '{"price":1.10,"rate":1.0,"n":1e3,"tiny":1E-400,"huge":1e400,"zero":-0,"list":[0.10,-0.0,12345678901234567890]}',
    '{"b":1,"7":2,"a":3,"0":4}',
    '{"b":{"2":[{"1":0,"0":1}]},"10":null}',
    '{"__proto__":{"x":1.0},"constructor":2}',
    '[]',
    '{"s":"a\\"b\\\\","n":1.50}',
    '{"a":"costs, 1.10, or 12345678901234567890"}',
  ])('is written again as it came: %s', (text) => {
    expect(again(text)).toBe(text);
  });

  it('is what JSON.parse reads otherwise', () => {
    fc.assert(
      fc.property(fc.json(), fc.constantFrom('', ' ', '\n\t'), (text, space) => {
        // The number makes the exact reader read all of it.
        const spaced = `${space}[${text}${space},1.0${space}]${space}`;
        expect(withPlainNumbers(parseExactly(spaced))).toEqual(JSON.parse(spaced));
      }),
    );
  });

  it.each([
    '',
    '{',
    '[1.0',
    '[1.0,]',
    '{"a":1.0,}',
    '{"a" 1.0}',
    '"1.0',
    '[01.0]',
    '[1.0] x',
    '[+1.0]',
    "[1.0,'a']",
    '{1.0:1}',
    '["\u0001",1.0]',
    '[.10]',
  ])('is refused where it is none: %s', (text) => {
    expect(() => JSON.parse(text)).toThrow(SyntaxError);
    expect(() => parseExactly(text)).toThrow(SyntaxError);
  });
});

describe('a number that JavaScript cannot hold', () => {
  it.each([
    ['{"a":[1,{"id":2512292042121000001}]}', { path: 'a.1.id', digits: '2512292042121000001' }],
    ['[1e400]', { path: '0', digits: '1e400' }],
    ['[0.1000000000000000055511151231257827]', { path: '0', digits: '0.1000000000000000055511151231257827' }],
    ['{"a":1.0,"b":1e3,"c":-0,"d":0.10,"e":9007199254740992,"f":100000000000000000000,"g":1.5e300}', null],
    ['{"a":"2512292042121000001"}', null],
  ])('is found by its path: %s', (text, found) => {
    expect(unholdableNumber(parseExactly(text))).toEqual(found);
  });
});
