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

/** Shows a sentence for some seconds; a failure stays until it is dismissed. */
export function notify(text: string, kind: Notice['kind'] = 'done'): void {
  lastId += 1;
  const notice = { id: lastId, kind, text };
  set([...notices.slice(-3), notice]);
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
