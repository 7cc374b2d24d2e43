import { useSyncExternalStore } from 'react';

export type Theme = 'system' | 'light' | 'dark';

const KEY = 'baton-theme';
const listeners = new Set<() => void>();

const isTheme = (value: string | null): value is Theme => value === 'light' || value === 'dark' || value === 'system';

function stored(): Theme {
  try {
    const value = localStorage.getItem(KEY);
    return isTheme(value) ? value : 'system';
  } catch {
    return 'system';
  }
}

let theme = stored();

/** Puts the theme on the page. Without a choice the system's counts. */
export function applyTheme(): void {
  document.documentElement.dataset['theme'] = theme;
}

export function chooseTheme(next: Theme): void {
  theme = next;
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // A browser may refuse storage. The choice then holds for this page.
  }
  applyTheme();
  for (const listener of listeners) listener();
}

export const useTheme = (): Theme =>
  useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => theme,
  );
