import type { LiveEvent } from '../domain/run/events.ts';

/** Live news between processes: only a hint, which may be lost, doubled or late. Listeners read Postgres. */
export type LiveBus = AsyncDisposable &
  Readonly<{
    /** Events up to `seq` are committed. Call it after the commit; it never waits or throws. */
    announce: (sessionId: string, seq: number) => void;
    /**
     * A preview with the public id of its message. Never waits or throws. Deltas of a message may be joined; previews
     * of a session arrive in order.
     */
    preview: (sessionId: string, event: LiveEvent) => void;
    /** Tells the worker of this run to stop it. */
    requestCancel: (runId: string) => void;
    onSession: (sessionId: string, listener: SessionListener) => Promise<Disposable>;
    onCancel: (listener: (runId: string) => void) => Promise<Disposable>;
    /** Sends all queued items. Also resolves if the transport is away. */
    flush: () => Promise<void>;
  }>;

export type SessionListener = Readonly<{
  onCommitted: (seq: number) => void;
  onPreview: (event: LiveEvent) => void;
  /** The connection was away, so news may be missing. Read again. */
  onReconnected: () => void;
}>;
