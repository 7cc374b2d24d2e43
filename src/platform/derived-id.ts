import { createHash } from 'node:crypto';

/** A UUID (version 8, RFC 9562) derived from the words: the same for the same words, so doing a thing twice is recognized. */
export function derivedId(...words: readonly string[]): string {
  const hash = createHash('sha256');
  for (const word of words) hash.update(`${word.length}:`).update(word);
  const hex = hash.digest('hex');
  const variant = ((Number.parseInt(hex.slice(16, 17), 16) & 0x3) | 0x8).toString(16);
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `${variant}${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ].join('-');
}
