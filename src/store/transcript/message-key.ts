/** What names a message: its id is unique within its session alone, because callers choose ids. UUIDs. */
export type MessageKey = Readonly<{ sessionId: string; messageId: string }>;
