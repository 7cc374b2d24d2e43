import { useSyncExternalStore } from 'react';
import { CONSOLE_PLACE } from './place.ts';

/**
 * What the service gives at a login besides its cookie, which no script reads. A browser sends the cookie to every port of
 * its host, and keeps this for the origin of the console alone: a request needs both.
 */
type LoginSecrets = Readonly<{ page: string; board: string }>;

/** Tabs of the console share it. Services below other paths of the origin have their own. */
const PLACE = `baton-login ${CONSOLE_PLACE}`;
const listeners = new Set<() => void>();

/** Null: nobody is logged in, or the browser stores nothing. */
export function readLogin(): LoginSecrets | null {
  try {
    const { page, board } = JSON.parse(localStorage.getItem(PLACE) ?? '{}') as Partial<LoginSecrets>;
    return typeof page === 'string' && typeof board === 'string' ? { page, board } : null;
  } catch {
    return null;
  }
}

/** @throws if the browser stores nothing for this page */
export function keepLogin({ page, board }: LoginSecrets): void {
  localStorage.setItem(PLACE, JSON.stringify({ page, board }));
  tell();
}

/** Forgets a login that is over, unless another tab has logged in since. */
export function forgetLogin(page: string): void {
  if (readLogin()?.page !== page) return;
  localStorage.removeItem(PLACE);
  tell();
}

function tell(): void {
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  addEventListener('storage', listener);
  return () => {
    listeners.delete(listener);
    removeEventListener('storage', listener);
  };
}

/** The path of the board's page. Its own requests cannot say who is logged in, so its address does. */
export const useBoardPath = (): string =>
  useSyncExternalStore(subscribe, () => {
    const login = readLogin();
    return login === null ? '/admin/queues' : `/admin/queues~${login.board}`;
  });
