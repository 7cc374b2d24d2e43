import type { EventData, LiveData, SessionSnapshot } from './contract.ts';

/** A union, so that the type of an event determines its data. */
type EventOf<RunId extends object> = {
  [Type in keyof EventData]: Readonly<{ type: Type; seq: number; createdAt: string; data: EventData[Type] } & RunId>;
}[keyof EventData];

/** A durable event: numbered without gaps in its session's log. `runId` is absent if it belongs to no run. */
export type DurableEvent = EventOf<{ runId?: string }>;

/** A durable event on a page. `runId` is null if it belongs to no run. */
export type PagedEvent = EventOf<{ runId: string | null }>;

/**
 * A piece of a call's input as the model writes it: incomplete JSON, of which the first piece is empty. Pieces may be
 * missing: `offset` counts the input's characters before this one, and `llm:tool-call` has the whole under this `id`.
 */
export type ToolInput = LiveData['llm:tool-input'];

/**
 * A piece of streamed text. It is not stored, and counts only once its `llm:response` comes. `offset` counts the
 * characters of the message so far, text and reasoning together; with a higher `epoch` the message begins anew.
 */
export type Chunk = LiveData['llm:chunk'];

export type LiveEvent = {
  [Type in keyof LiveData]: Readonly<{ type: Type; data: LiveData[Type] }>;
}[keyof LiveData];

export type SnapshotEvent = Readonly<{ type: 'session:snapshot'; data: SessionSnapshot }>;

/** An event of a stream. A newer service may send types that are not listed here: ignore them. */
export type StreamEvent = SnapshotEvent | DurableEvent | LiveEvent;

/** A page of durable events. `next` is the `after` of the next page. */
export type EventPage = Readonly<{
  events: readonly PagedEvent[];
  next: number;
  /** The id of that event, which also names the history of the server's database. */
  nextId: string;
  /** The page begins with the first event that is kept, because `after` belonged to a history that was lost. */
  reset: boolean;
}>;
