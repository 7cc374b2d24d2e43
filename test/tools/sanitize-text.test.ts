import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { sanitizeText } from '../../src/tools/sanitize-text.ts';

describe('sanitizeText', () => {
  it('replaces NUL and lone surrogates and keeps everything else', () => {
    expect(sanitizeText('a\u0000b \uD83D c \uDE00 d 😀 ä\n\t')).toBe('a\uFFFDb \uFFFD c \uFFFD d 😀 ä\n\t');
  });

  it('gives well-formed text without NUL for any UTF-16 string, and is idempotent', () => {
    const anyString = fc.array(fc.nat(0xffff)).map((units) => String.fromCharCode(...units));
    fc.assert(
      fc.property(anyString, (text) => {
        const clean = sanitizeText(text);
        expect(clean.isWellFormed() && !clean.includes('\u0000')).toBe(true);
        expect(sanitizeText(clean)).toBe(clean);
      }),
    );
  });
});
