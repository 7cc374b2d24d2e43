/** The times that a page can look back, in milliseconds. */
export const WINDOWS = { '1d': 86_400_000, '7d': 604_800_000, '30d': 2_592_000_000, '90d': 7_776_000_000 } as const;
export type Window = keyof typeof WINDOWS;

export const windowWords = (window: string): string => WORDS[window] ?? `${window.slice(0, -1)} days`;
const WORDS: Readonly<Record<string, string>> = { '1h': 'hour', '1d': '24 hours' };

export const readWindow = (value: unknown): Window | undefined =>
  typeof value === 'string' && Object.hasOwn(WINDOWS, value) ? (value as Window) : undefined;

/** The start of the window, rounded down to the minute, so that the request stays the same for a while. */
export const sinceOf = (window: Window): string =>
  new Date(Math.floor((Date.now() - WINDOWS[window]) / 60_000) * 60_000).toISOString();
