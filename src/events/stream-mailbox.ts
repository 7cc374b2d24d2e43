import type { LiveEvent } from '../domain/events.ts';
import type { SessionListener } from './live-bus.ts';

/** Previews that a reader has not taken yet. The oldest go first: they are persisted, and filled in from there. */
const MAX_WAITING_PREVIEWS = 1_000;
const MAX_WAITING_CHARS = 262_144;

type News = Readonly<{
  /** The highest announced event; 0 when none was announced. */
  committedSeq: number;
  /** Messages may have been missed. */
  reread: boolean;
  previews: readonly LiveEvent[];
}>;

export type StreamMailbox = Disposable &
  Readonly<{
    listener: SessionListener;
    take: () => News;
    /** Resolves when there is news, after `timeoutMs`, or when the mailbox is closed. */
    wait: (timeoutMs: number) => Promise<void>;
    isClosed: () => boolean;
    closed: Promise<void>;
  }>;

/** Where hints from the bus wait for one reader, however slow it is. */
export function createStreamMailbox(): StreamMailbox {
  let previews: LiveEvent[] = [];
  let chars = 0;
  let committedSeq = 0;
  let reread = false;
  const closing = Promise.withResolvers<void>();
  let closed = false;
  let wake: (() => void) | null = null;

  const hasNews = (): boolean => committedSeq > 0 || reread || previews.length > 0;

  function addPreview(event: LiveEvent): void {
    previews.push(event);
    chars += charsOf(event);
    while (previews.length > MAX_WAITING_PREVIEWS || (chars > MAX_WAITING_CHARS && previews.length > 1)) {
      const dropped = previews.shift();
      if (dropped !== undefined) chars -= charsOf(dropped);
    }
  }

  const listener: SessionListener = {
    onCommitted(seq) {
      committedSeq = Math.max(committedSeq, seq);
      wake?.();
    },
    onPreview(event) {
      addPreview(event);
      wake?.();
    },
    onReconnected() {
      reread = true;
      wake?.();
    },
  };

  return {
    listener,
    take() {
      const news = { committedSeq, reread, previews };
      previews = [];
      chars = 0;
      committedSeq = 0;
      reread = false;
      return news;
    },
    async wait(timeoutMs) {
      if (closed || hasNews() || timeoutMs <= 0) return;
      const { promise, resolve } = Promise.withResolvers<void>();
      const timer = setTimeout(resolve, timeoutMs);
      wake = resolve;
      await promise;
      clearTimeout(timer);
      wake = null;
    },
    isClosed: () => closed,
    closed: closing.promise,
    [Symbol.dispose]() {
      closed = true;
      closing.resolve();
      wake?.();
    },
  };
}

const charsOf = (event: LiveEvent): number => (event.type === 'llm:chunk' ? event.data.content.length : 0);
