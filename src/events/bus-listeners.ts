import { type BusItem, decodePayload, sessionOf } from './bus-payload.ts';
import { createFanOut } from './fan-out.ts';
import type { SessionListener } from './live-bus.ts';

export type BusListeners = Readonly<{
  /** @returns whether it is the session's first listener */
  addSession: (sessionId: string, listener: SessionListener) => boolean;
  /** @returns whether it was the session's last listener */
  removeSession: (sessionId: string, listener: SessionListener) => boolean;
  sessionIds: () => string[];
  addCancel: (listener: (runId: string) => void) => Disposable;
  /** Hands a received payload to its listeners, in slices if there are many. Unknown payloads are skipped. */
  deliver: (payload: string) => void;
  reconnected: () => void;
}>;

/** The listeners of a bus. An error in one is reported and does not reach the others. */
export function createBusListeners(onError: (error: unknown) => void): BusListeners {
  const sessions = new Map<string, Set<SessionListener>>();
  const cancels = new Set<(runId: string) => void>();

  function guard(call: () => void): void {
    try {
      call();
    } catch (error) {
      onError(error);
    }
  }

  function deliverItem(listener: SessionListener, item: BusItem): void {
    guard(() => ('seq' in item ? listener.onCommitted(item.seq) : listener.onPreview(item.event)));
  }

  const fanOut = createFanOut((sessionId) => sessions.get(sessionId), deliverItem);

  return {
    addSession(sessionId, listener) {
      const listeners = sessions.get(sessionId);
      if (listeners === undefined) sessions.set(sessionId, new Set([listener]));
      else listeners.add(listener);
      return listeners === undefined;
    },
    removeSession(sessionId, listener) {
      const listeners = sessions.get(sessionId);
      if (listeners === undefined || !listeners.delete(listener) || listeners.size > 0) return false;
      return sessions.delete(sessionId);
    },
    sessionIds: () => [...sessions.keys()],
    addCancel(listener) {
      // Wrapped, so that a function added twice is called twice and removed once per disposal.
      const entry = (runId: string): void => listener(runId);
      cancels.add(entry);
      return { [Symbol.dispose]: () => void cancels.delete(entry) };
    },
    deliver(payload) {
      const sessionId = sessionOf(payload);
      if (sessionId !== null && !sessions.has(sessionId)) return;
      const message = decodePayload(payload);
      if (message === null) return;
      if (message.kind === 'cancel') {
        for (const listener of [...cancels]) guard(() => listener(message.runId));
        return;
      }
      fanOut.tell(message.sessionId, message.items);
    },
    reconnected() {
      for (const listener of [...sessions.values()].flatMap((set) => [...set])) guard(() => listener.onReconnected());
    },
  };
}
