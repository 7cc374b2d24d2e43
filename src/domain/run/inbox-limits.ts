/** Limits of the queued messages of one session: their number, and the bytes of their contents. */
export type InboxLimits = Readonly<{ messages: number; bytes: number }>;

export type InboxLoad = Readonly<{ messages: number; bytes: number }>;

/** Whether one more message may be queued. An empty inbox takes any: the largest may exceed the configured bytes. */
export function fitsInbox(limits: InboxLimits, waiting: InboxLoad, contentBytes: number): boolean {
  if (waiting.messages === 0) return true;
  return waiting.messages < limits.messages && waiting.bytes + contentBytes <= limits.bytes;
}
