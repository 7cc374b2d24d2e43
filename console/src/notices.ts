import { useSyncExternalStore } from 'react';

export type Notice = Readonly<{ id: number; kind: 'done' | 'failed'; text: string }>;

const SHOWN_MS = 6_000;
const listeners = new Set<() => void>();
let notices: readonly Notice[] = [];
let lastId = 0;

function set(next: readonly Notice[]): void {
  notices = next;
  for (const listener of listeners) listener();
}

const MAX_FAILURES = 3;

/**
 * Shows a sentence for some seconds, in the place of the one before; a failure stays until it is dismissed. The same
 * words stand once.
 */
export function notify(text: string, kind: Notice['kind'] = 'done'): void {
  lastId += 1;
  const notice = { id: lastId, kind, text };
  const failures = notices.filter((one) => one.kind === 'failed' && one.text !== text);
  set([...failures.slice(kind === 'failed' ? 1 - MAX_FAILURES : -MAX_FAILURES), notice]);
  if (kind === 'done') setTimeout(() => dismiss(notice.id), SHOWN_MS);
}

export const dismiss = (id: number): void => set(notices.filter((notice) => notice.id !== id));

export const useNotices = (): readonly Notice[] =>
  useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => notices,
  );
