import type { LiveEvent } from '../domain/run/events.ts';

/**
 * Live news between processes. It is a hint and never the source: a message may be lost, doubled or late. Whoever
 * listens reads Postgres.
 */
export type LiveBus = AsyncDisposable &
  Readonly<{
    /** Events of the session up to `seq` are committed. Call it after the commit; never waits, never throws. */
    announce: (sessionId: string, seq: number) => void;
    /**
     * A preview of what will be durable soon; its message id is the public one. Deltas of one message are joined for a
     * moment. What is published of a session arrives in that order. Never waits, never throws.
     */
    preview: (sessionId: string, event: LiveEvent) => void;
    /** Somebody asked this run to stop. */
    requestCancel: (runId: string) => void;
    onSession: (sessionId: string, listener: SessionListener) => Promise<Disposable>;
    onCancel: (listener: (runId: string) => void) => Promise<Disposable>;
    /** Hands what waits to the transport; resolves also when that is away. */
    flush: () => Promise<void>;
  }>;

export type SessionListener = Readonly<{
  onCommitted: (seq: number) => void;
  onPreview: (event: LiveEvent) => void;
  /** The connection was away: messages may be missing, read again. */
  onReconnected: () => void;
}>;
