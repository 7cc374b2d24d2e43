import { randomFillSync } from 'node:crypto';
import { uuidV7 } from '../domain/ids.ts';

const RANDOM_BYTES = 10;
/** Drawn for many ids at once: a draw costs more than the rest of an id. */
const drawn = Buffer.allocUnsafe(400 * RANDOM_BYTES);
let used = drawn.length;

/** A fresh UUIDv7. */
export function newId(): string {
  if (used === drawn.length) {
    randomFillSync(drawn);
    used = 0;
  }
  const random = drawn.subarray(used, used + RANDOM_BYTES);
  used += RANDOM_BYTES;
  return uuidV7(Date.now(), random);
}
