import { DEFAULT_INBOX_BYTES, DEFAULT_INBOX_MESSAGES } from '../tunables.ts';

/** Limits of the queued messages of one session: their number, and the bytes of their contents. */
export type InboxLimits = Readonly<{ messages: number; bytes: number }>;

export const DEFAULT_INBOX_LIMITS: InboxLimits = { messages: DEFAULT_INBOX_MESSAGES, bytes: DEFAULT_INBOX_BYTES };

export type InboxLoad = Readonly<{ messages: number; bytes: number }>;

/** Whether one more message may be queued. An empty inbox takes any: the largest may exceed the configured bytes. */
export function fitsInbox(limits: InboxLimits, waiting: InboxLoad, contentBytes: number): boolean {
  if (waiting.messages === 0) return true;
  return waiting.messages < limits.messages && waiting.bytes + contentBytes <= limits.bytes;
}
