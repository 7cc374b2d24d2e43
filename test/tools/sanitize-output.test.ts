import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { jsonSchema, type ToolOutput } from '../../src/domain/transcript/message.ts';
import { sanitizeOutput } from '../../src/tools/sanitize-output.ts';

const unit = fc.oneof(
  fc.constantFrom('\u0000', '\uD83D', '\uDE00', '\uFFFD', '\u0007', '\u001b[31m', '\n', '😀', 'ä', '漢'),
  fc.string({ unit: 'binary', maxLength: 3 }),
  fc.string({ maxLength: 40 }),
);
const text = fc.array(unit, { maxLength: 30 }).map((units) => units.join(''));
const json = fc
  .letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 3 },
      text,
      fc.constantFrom(null, true, 3),
      fc.array(tie('value'), { maxLength: 4 }),
      fc.dictionary(text, tie('value'), { maxKeys: 4 }),
    ),
  }))
  .value.map((value) => jsonSchema.parse(value));
const output: fc.Arbitrary<ToolOutput> = fc.oneof(
  fc.record({ type: fc.constant('text' as const), value: text }),
  fc.record({ type: fc.constant('error-text' as const), value: text }),
  fc.record({ type: fc.constant('json' as const), value: json }),
  fc.record({ type: fc.constant('execution-denied' as const), reason: text }),
);

/**
 * Whether Postgres takes the value as jsonb: it has no U+0000 and no lone surrogate. Every text that is shown is
 * storable, too.
 */
const isStorable = (value: unknown): boolean => !/\\u0000|\\ud[89a-f]/i.test(JSON.stringify(value));

describe('any output of any tool', () => {
  it('can be stored, and stays what it is once it can', () => {
    fc.assert(
      fc.property(output, (any) => {
        const clean = sanitizeOutput(any);
        expect(clean.type).toBe(any.type);
        expect(isStorable(clean)).toBe(true);
        expect(sanitizeOutput(clean)).toEqual(clean);
      }),
    );
  });

  it('is unchanged where it is text in any language', () => {
    const written = fc.string({ unit: 'grapheme', maxLength: 400 });
    fc.assert(
      fc.property(written, (value) => {
        expect(sanitizeOutput({ type: 'text', value })).toEqual({ type: 'text', value });
      }),
    );
  });
});

describe('binary data', () => {
  const bytes = randomBytes(20_000).toString('utf8');
  const notice = `[binary data, ${bytes.length} characters, not shown]`;

  it('is named and left out, as text and inside of JSON', () => {
    expect(sanitizeOutput({ type: 'text', value: bytes })).toEqual({ type: 'text', value: notice });
    expect(sanitizeOutput({ type: 'json', value: { file: [bytes], size: 3 } })).toEqual({
      type: 'json',
      value: { file: [notice], size: 3 },
    });
  });

  it('is not seen in a text with colours, a bell and an odd byte', () => {
    const value = `\u001b[1mok\u001b[0m\u0007 \uFFFD ${'plain words, '.repeat(20)}`;
    expect(sanitizeOutput({ type: 'text', value })).toEqual({ type: 'text', value });
  });
});
