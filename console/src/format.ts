import { BatonError } from '@baton-run/server/client';

const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;

/** The distance from now to a time in the past or in the future: `42 s ago`, `in 5 min`. */
export function relativeTime(atMs: number, nowMs: number): string {
  const distanceMs = nowMs - atMs;
  const words = roughDuration(Math.abs(distanceMs));
  if (Math.abs(distanceMs) < SECOND_MS) return 'now';
  return distanceMs > 0 ? `${words} ago` : `in ${words}`;
}

function roughDuration(durationMs: number): string {
  if (durationMs < MINUTE_MS) return `${Math.floor(durationMs / SECOND_MS)} s`;
  if (durationMs < HOUR_MS) return `${Math.floor(durationMs / MINUTE_MS)} min`;
  if (durationMs < 2 * DAY_MS) return `${Math.floor(durationMs / HOUR_MS)} h`;
  return `${Math.floor(durationMs / DAY_MS)} d`;
}

/** A measured duration: `12 ms`, `1.8 s`, `2 min 5 s`. */
export function duration(durationMs: number): string {
  if (durationMs < SECOND_MS) return `${Math.round(durationMs)} ms`;
  if (durationMs < 10 * SECOND_MS) return `${(durationMs / SECOND_MS).toFixed(1)} s`;
  if (durationMs < MINUTE_MS) return `${Math.round(durationMs / SECOND_MS)} s`;
  const minutes = Math.floor(durationMs / MINUTE_MS);
  if (minutes < 60) return `${minutes} min ${Math.floor((durationMs % MINUTE_MS) / SECOND_MS)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

const exact = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'long' });

/** The whole time in the zone of the reader, and as the API has it. */
export const exactTime = (iso: string): string => `${exact.format(new Date(iso))}\n${iso}`;

const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });
export const clockTime = (iso: string): string => clock.format(new Date(iso));

const whole = new Intl.NumberFormat('en-US');
export const count = (value: number): string => whole.format(value);

/** Short for a table: `312k`, `1.4M`. */
export function shortCount(value: number): string {
  if (value < 1_000) return String(value);
  if (value < 10_000) return `${(value / 1_000).toFixed(1)}k`;
  if (value < 1_000_000) return `${Math.round(value / 1_000)}k`;
  return `${(value / 1_000_000).toFixed(1)}M`;
}

/** US dollars; null: the price of some call is unknown. */
export function cost(costUsd: number | null): string {
  if (costUsd === null) return '$ ?';
  if (costUsd === 0) return '$0';
  return costUsd < 0.01 ? `$${costUsd.toFixed(4)}` : `$${costUsd.toFixed(2)}`;
}

export function bytes(sizeBytes: number): string {
  if (sizeBytes < 1_000) return `${sizeBytes} B`;
  if (sizeBytes < 1_000_000) return `${Math.round(sizeBytes / 1_000)} kB`;
  return `${(sizeBytes / 1_000_000).toFixed(1)} MB`;
}

export const percent = (share: number): string => `${Math.round(share * 100)} %`;

/** `1 step`, `2 steps`. */
export const plural = (value: number, word: string): string => `${count(value)} ${word}${value === 1 ? '' : 's'}`;

/** Markdown on one line, without the marks that only mean something to a renderer. */
export const plainWords = (markdown: string): string =>
  markdown
    .replace(/^\s*(?:#{1,6}|>|[-*+]|\d+\.)\s+/gm, '')
    .replace(/^\s*(?:```\S*|\|?[\s|:-]*-{2,}[\s|:-]*)\s*$/gm, '')
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/(\*\*|__|~~)(?=\S)(.+?)\1/g, '$2')
    .replace(/(?<![\w*])\*(?=\S)([^*]+)\*(?![\w*])/g, '$1')
    .replace(/`+([^`]+)`+/g, '$1')
    .replace(/\s+/g, ' ')
    .trim();

/** The beginning of a text that may be of any length. */
export const clipped = (text: string, maxChars: number): string =>
  text.length <= maxChars ? text : `${text.slice(0, maxChars)}…`;

/** The sentences about a failure: its cause, and the advice that belongs to its kind. */
export function failureWords(error: unknown): string {
  if (!(error instanceof BatonError)) return error instanceof Error ? error.message : String(error);
  return capital(error.message);
}

/** Whether the service did not answer. The page says so once, above all else, and goes on by itself. */
export const isUnreachable = (error: unknown): boolean => error instanceof BatonError && error.code === 'unreachable';

export const capital = (words: string): string => words.charAt(0).toUpperCase() + words.slice(1);
