import { randomBytes } from 'node:crypto';
import { uuidV7 } from '../domain/ids.ts';

/** A fresh UUIDv7. */
export function newId(): string {
  return uuidV7(Date.now(), randomBytes(10));
}
