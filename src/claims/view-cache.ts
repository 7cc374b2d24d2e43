import type { ViewMessage } from '../domain/transcript/message.ts';
import { VIEW_CACHE_MAX_CHARS } from '../domain/tunables.ts';
import type { CachedView } from '../store/work/claims.ts';

/** The views of the sessions that this process worked on last, so that a claim reads only newer messages. */
export type ViewCache = Readonly<{
  of: (runId: string) => CachedView | undefined;
  /** Stores the view with which a step of the run began. */
  keep: (runId: string, sessionId: string, view: CachedView) => void;
  /** Call it when the run has ended or requires an action: another worker may go on with the session. */
  forget: (runId: string) => void;
  /** Call it when Postgres has gone back in time. */
  forgetAll: () => void;
}>;

type Entry = Readonly<{ runId: string; view: CachedView; chars: number }>;

/** Keeps views up to `maxChars` characters in total. The least recently used go first. */
export function createViewCache(maxChars: number = VIEW_CACHE_MAX_CHARS): ViewCache {
  // Ordered by insertion, so the first entry is the least recently used.
  const entries = new Map<string, Entry>();
  const sessionOf = new Map<string, string>();
  let total = 0;
  const drop = (sessionId: string): void => {
    const entry = entries.get(sessionId);
    if (entry === undefined) return;
    entries.delete(sessionId);
    sessionOf.delete(entry.runId);
    total -= entry.chars;
  };
  return {
    of(runId) {
      const sessionId = sessionOf.get(runId);
      return sessionId === undefined ? undefined : entries.get(sessionId)?.view;
    },
    forget(runId) {
      const sessionId = sessionOf.get(runId);
      if (sessionId !== undefined) drop(sessionId);
    },
    forgetAll() {
      for (const sessionId of [...entries.keys()]) drop(sessionId);
    },
    keep(runId, sessionId, view) {
      drop(sessionId);
      const chars = view.messages.reduce((sum, message) => sum + charsOf(message), ENTRY_CHARS);
      const entry = { runId, view, chars };
      if (chars > maxChars) return;
      entries.set(sessionId, entry);
      sessionOf.set(runId, sessionId);
      total += chars;
      for (const oldest of entries.keys()) {
        if (total <= maxChars) return;
        drop(oldest);
      }
    },
  };
}

/** Estimated size of the objects around the text, in characters. */
const ENTRY_CHARS = 500;
const MESSAGE_CHARS = 150;
const PART_CHARS = 50;

const counted = new WeakMap<ViewMessage, number>();

/** A view shares its messages with the previous step's view, so each is counted once. */
function charsOf(message: ViewMessage): number {
  const cached = counted.get(message);
  if (cached !== undefined) return cached;
  const { parts } = message;
  const chars = JSON.stringify(parts).length + MESSAGE_CHARS + parts.length * PART_CHARS;
  counted.set(message, chars);
  return chars;
}
