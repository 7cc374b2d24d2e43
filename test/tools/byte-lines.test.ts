import fc from 'fast-check';
import { expect, it } from 'vitest';
import { createByteLines } from '../../src/tools/mcp/byte-lines.ts';

it('finds the same lines however the bytes are cut into pieces', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: 'grapheme' })), fc.array(fc.nat({ max: 20 })), (texts, sizes) => {
      const sent = texts.map((text) => text.replaceAll('\n', ' '));
      let rest = Buffer.from(sent.map((line) => `${line}\n`).join(''));
      const lines = createByteLines(1_000);
      const received: string[] = [];
      for (const size of [...sizes, rest.byteLength]) {
        received.push(...lines.push(rest.subarray(0, size)));
        rest = rest.subarray(size);
      }
      received.push(...lines.push(rest));
      expect(received).toEqual(sent);
    }),
  );
});

it('refuses a line that grows beyond its limit', () => {
  const lines = createByteLines(10);
  expect(lines.push(Buffer.from('0123456789'))).toEqual([]);
  expect(() => lines.push(Buffer.from('x'))).toThrow('a message is larger than 10 bytes');
});
