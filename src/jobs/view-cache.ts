import type { ViewMessage } from '../domain/message.ts';
import { VIEW_CACHE_MAX_CHARS } from '../domain/tunables.ts';
import type { KnownView } from '../store/claims.ts';

/** The views of the sessions that this process has worked on last: a claim brings only what they do not have. */
export type ViewCache = Readonly<{
  /** What is known of the session of this run. */
  of: (runId: string) => KnownView | undefined;
  /** Remembers the view that a step of the run has begun with. */
  keep: (runId: string, sessionId: string, view: KnownView) => void;
}>;

type Entry = Readonly<{ runId: string; view: KnownView; chars: number }>;

/** Keeps as many views as `maxChars` characters allow; those that were used last stay. */
export function createViewCache(maxChars: number = VIEW_CACHE_MAX_CHARS): ViewCache {
  // A map keeps the order of insertion: the first one is the one that was used least recently.
  const entries = new Map<string, Entry>();
  const sessionOf = new Map<string, string>();
  let chars = 0;
  const drop = (sessionId: string): void => {
    const entry = entries.get(sessionId);
    if (entry === undefined) return;
    entries.delete(sessionId);
    sessionOf.delete(entry.runId);
    chars -= entry.chars;
  };
  return {
    of(runId) {
      const sessionId = sessionOf.get(runId);
      return sessionId === undefined ? undefined : entries.get(sessionId)?.view;
    },
    keep(runId, sessionId, view) {
      drop(sessionId);
      const entry = { runId, view, chars: view.messages.reduce((sum, message) => sum + charsOf(message), 0) };
      if (entry.chars > maxChars) return;
      entries.set(sessionId, entry);
      sessionOf.set(runId, sessionId);
      chars += entry.chars;
      for (const oldest of entries.keys()) {
        if (chars <= maxChars) return;
        drop(oldest);
      }
    },
  };
}

const counted = new WeakMap<ViewMessage, number>();

/** Messages of a view that goes on are the same objects from step to step: each is counted once. */
function charsOf(message: ViewMessage): number {
  const known = counted.get(message);
  if (known !== undefined) return known;
  const chars = JSON.stringify(message.parts).length;
  counted.set(message, chars);
  return chars;
}
