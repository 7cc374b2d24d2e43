import type { ViewMessage } from '../domain/transcript/message.ts';
import { VIEW_CACHE_MAX_CHARS } from '../domain/tunables.ts';
import type { KnownView } from '../store/claims.ts';

/** The views of the sessions that this process has worked on last: a claim brings only what they do not have. */
export type ViewCache = Readonly<{
  /** What is known of the session of this run. */
  of: (runId: string) => KnownView | undefined;
  /** Remembers the view that a step of the run has begun with. */
  keep: (runId: string, sessionId: string, view: KnownView) => void;
  /** The run has ended or waits for somebody: whoever works on the session next reads the view anew. */
  forget: (runId: string) => void;
}>;

type Entry = Readonly<{ runId: string; view: KnownView; chars: number }>;

/** Keeps as many views as `maxChars` characters allow; those that were used last stay. */
export function createViewCache(maxChars: number = VIEW_CACHE_MAX_CHARS): ViewCache {
  // A map keeps the order of insertion: the first one is the one that was used least recently.
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

/** About what the objects around the text take, counted as if it was text. */
const ENTRY_CHARS = 500;
const MESSAGE_CHARS = 150;
const PART_CHARS = 50;

const counted = new WeakMap<ViewMessage, number>();

/** Messages of a view that goes on are the same objects from step to step: each is counted once. */
function charsOf(message: ViewMessage): number {
  const known = counted.get(message);
  if (known !== undefined) return known;
  const { parts } = message;
  const chars = JSON.stringify(parts).length + MESSAGE_CHARS + parts.length * PART_CHARS;
  counted.set(message, chars);
  return chars;
}
