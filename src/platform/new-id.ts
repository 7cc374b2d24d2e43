import { randomFillSync } from 'node:crypto';
import { type IdMoment, nextIdMoment, uuidV7 } from '../domain/ids.ts';

const RANDOM_BYTES = 10;
/** Drawn for many ids at once: a draw costs more than the rest of an id. */
const drawn = Buffer.allocUnsafe(400 * RANDOM_BYTES);
let used = drawn.length;
let last: IdMoment = { ms: 0, count: 0 };

/** A fresh UUIDv7, which sorts after all that this process has made. */
export function newId(): string {
  if (used === drawn.length) {
    randomFillSync(drawn);
    used = 0;
  }
  const random = drawn.subarray(used, used + RANDOM_BYTES);
  used += RANDOM_BYTES;
  last = nextIdMoment(last, Date.now(), random);
  return uuidV7(last, random);
}
