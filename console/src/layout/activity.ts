import { useEffect, useSyncExternalStore } from 'react';
import { client, isLoggedOut, queries } from '../api.ts';
import { whileVisible } from '../visible.ts';
import { useMay } from './caller.ts';

const RETRY_MS = 3_000;

/** The ids of the changed sessions and runs. `all`: too many have changed to name them, or some changes were missed. */
export type Change = Readonly<{ sessions: readonly string[]; runs: readonly string[] }> | 'all';

type Listener = (change: Change) => void;
const listeners = new Set<Listener>();

/** Calls the listener when the state of sessions or runs has changed, until the returned function is called. */
export function onActivity(listener: Listener): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

const tell: Listener = (change) => {
  for (const listener of listeners) listener(change);
};

/** Keeps lists and counts fresh: follows the tenant's activity for as long as the page is open. */
export function useActivity(): void {
  const mayRead = useMay('read');
  const isHidden = useIsHidden();
  useEffect(() => {
    // A browser has six connections to a service: hidden tabs must not hold them all.
    if (!mayRead || isHidden) return;
    const over = new AbortController();
    void follow(over.signal);
    return () => over.abort();
  }, [mayRead, isHidden]);
}

const useIsHidden = (): boolean =>
  useSyncExternalStore(
    (listener) => {
      document.addEventListener('visibilitychange', listener);
      return () => document.removeEventListener('visibilitychange', listener);
    },
    () => document.hidden,
  );

async function follow(signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      await whileVisible(signal, listen);
    } catch (error) {
      if (isLoggedOut(error)) return;
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

async function listen(signal: AbortSignal): Promise<void> {
  tell('all');
  for await (const event of client.activity({ signal })) {
    tell(event.type === 'overflow' ? 'all' : event.data);
    void queries.invalidateQueries({ queryKey: ['live'] });
  }
}
