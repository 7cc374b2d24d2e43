import type { LiveEvent } from '../../src/domain/run/events.ts';
import type { LiveBus, SessionListener } from '../../src/events/live-bus.ts';

/** The fate of one message on its way to one listener. */
export type Fate = 'now' | 'twice' | 'lost' | 'late';

export type UnreliableBus = LiveBus &
  Readonly<{
    /** Delivers the late messages, newest first. */
    deliverLate: () => void;
    listenerCount: () => number;
    reconnect: () => void;
  }>;

/** A bus in memory that loses, doubles, delays and reorders as `nextFate` says. */
export function createUnreliableBus(nextFate: () => Fate): UnreliableBus {
  const listeners = new Map<SessionListener, string>();
  let late: (() => void)[] = [];

  function send(sessionId: string, tell: (listener: SessionListener) => void): void {
    for (const [listener, id] of listeners) {
      if (id !== sessionId) continue;
      const deliver = (): void => {
        if (listeners.has(listener)) tell(listener);
      };
      const fate = nextFate();
      if (fate === 'late') late.push(deliver);
      if (fate === 'now' || fate === 'twice') deliver();
      if (fate === 'twice') deliver();
    }
  }

  return {
    announce: (sessionId, seq) => send(sessionId, (listener) => listener.onCommitted(seq)),
    preview: (sessionId, event: LiveEvent) => send(sessionId, (listener) => listener.onPreview(event)),
    requestCancel: () => undefined,
    async onSession(sessionId, listener) {
      listeners.set(listener, sessionId);
      return { [Symbol.dispose]: () => void listeners.delete(listener) };
    },
    onCancel: async () => ({ [Symbol.dispose]: () => undefined }),
    flush: async () => undefined,
    deliverLate() {
      const waiting = late.toReversed();
      late = [];
      for (const deliver of waiting) deliver();
    },
    listenerCount: () => listeners.size,
    reconnect() {
      for (const listener of listeners.keys()) listener.onReconnected();
    },
    [Symbol.asyncDispose]: async () => undefined,
  };
}
