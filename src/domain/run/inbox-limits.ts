/** What may wait in the inbox of one session: messages, and bytes of their contents. */
export type InboxLimits = Readonly<{ messages: number; bytes: number }>;

/** What waits in it. */
export type InboxLoad = Readonly<{ messages: number; bytes: number }>;

/**
 * Whether a message may wait beside what waits already. One that waits alone always may: the largest message can be larger
 * than what a setting allows to wait.
 */
export function fitsInbox(limits: InboxLimits, waiting: InboxLoad, contentBytes: number): boolean {
  if (waiting.messages === 0) return true;
  return waiting.messages < limits.messages && waiting.bytes + contentBytes <= limits.bytes;
}
