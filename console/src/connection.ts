import { useSyncExternalStore } from 'react';

const listeners = new Set<() => void>();
let lostAtMs: number | null = null;

/** Notes whether the service has answered the last request. */
export function noteConnection(isUp: boolean): void {
  if (isUp === (lostAtMs === null)) return;
  lostAtMs = isUp ? null : Date.now();
  for (const listener of listeners) listener();
}

/** Since when the service does not answer; null: it does. */
export const useLostConnection = (): number | null =>
  useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => lostAtMs,
  );
