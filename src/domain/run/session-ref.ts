import { parseId } from '../ids.ts';

const KEY_PREFIX = 'key:';

/** A session as callers name it: by its id, or by the key that its owner gave it. */
export type SessionRef = Readonly<{ id: string } | { key: string }>;

/** `ses_018f…` or `key:order-7`; null: neither. */
export function parseSessionRef(text: string): SessionRef | null {
  if (text.startsWith(KEY_PREFIX) && text.length > KEY_PREFIX.length) return { key: text.slice(KEY_PREFIX.length) };
  const id = parseId('session', text);
  return id === null ? null : { id };
}
