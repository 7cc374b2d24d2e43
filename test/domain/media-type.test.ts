import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isSafeInline, judgeMediaType, SNIFFED_MEDIA_TYPES, sniffMediaType } from '../../src/domain/media-type.ts';

const latin1 = (text: string) => Uint8Array.from(text, (char) => char.charCodeAt(0));

const BEGINNINGS = [
  ['image/png', '\x89PNG\r\n\x1a\n\0\0'],
  ['image/jpeg', '\xff\xd8\xff\xe0'],
  ['image/gif', 'GIF87a...'],
  ['image/gif', 'GIF89a...'],
  ['image/webp', 'RIFF\x01\x02\x03\x04WEBPVP8 '],
  ['application/pdf', '%PDF-1.7\n'],
  ['audio/wav', 'RIFF\x01\x02\x03\x04WAVEfmt '],
] as const;

describe('the media type of a file', () => {
  it.each(BEGINNINGS)('is %s by its beginning, whatever it is called', (mediaType, text) => {
    for (const declared of [undefined, 'application/octet-stream', 'image/png', 'text/html']) {
      expect(judgeMediaType(declared, latin1(text))).toEqual({ kind: 'taken', mediaType });
    }
  });

  it('is tried above for every type that is told by its beginning', () => {
    expect(new Set(BEGINNINGS.map(([mediaType]) => mediaType))).toEqual(SNIFFED_MEDIA_TYPES);
  });

  it.each([...SNIFFED_MEDIA_TYPES])('is not %s because somebody says so', (mediaType) => {
    expect(judgeMediaType(mediaType, latin1('<script>'))).toEqual({
      kind: 'refused',
      why: `is not ${mediaType}, whatever it says`,
    });
  });

  it.each([
    ['text/markdown; charset=utf-8', 'text/markdown'],
    ['Application/JSON', 'application/json'],
    ['image/svg+xml', 'image/svg+xml'],
    [undefined, 'text/plain'],
    ['application/octet-stream', 'text/plain'],
  ])('is what %s names, where the beginning says nothing: %s', (declared, mediaType) => {
    expect(judgeMediaType(declared, latin1('# hello'))).toEqual({ kind: 'taken', mediaType });
  });

  it('is that of any bytes where there is no name and no text', () => {
    expect(judgeMediaType(undefined, latin1('a\0b'))).toEqual({ kind: 'taken', mediaType: 'application/octet-stream' });
    expect(judgeMediaType(undefined, latin1('\xc3\x28'))).toEqual({
      kind: 'taken',
      mediaType: 'application/octet-stream',
    });
  });

  it.each(['', 'png', 'image/', '/png', 'image/p ng', 'a/b/c', '../x'])('refuses the name %j', (declared) => {
    expect(judgeMediaType(declared, latin1('x'))).toEqual({ kind: 'refused', why: 'is not a media type' });
  });

  it('refuses nothing at all', () => {
    expect(judgeMediaType('text/plain', new Uint8Array())).toEqual({ kind: 'refused', why: 'must not be empty' });
  });

  it('never throws, and says of no other bytes that they are an image', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), fc.option(fc.string(), { nil: undefined }), (bytes, declared) => {
        const verdict = judgeMediaType(declared, bytes);
        if (verdict.kind === 'refused' || !isSafeInline(verdict.mediaType)) return;
        expect(sniffMediaType(bytes)).toBe(verdict.mediaType);
      }),
    );
  });
});
