import { contentLength, type LiveEvent } from '../domain/run/events.ts';
import type { SessionListener } from './live-bus.ts';

/** Limit of previews that wait for a reader. The oldest go first: their text is stored and read from there. */
const MAX_WAITING_PREVIEWS = 1_000;
const MAX_WAITING_CHARS = 262_144;

type News = Readonly<{
  /** The highest announced event. 0: none was announced. */
  committedSeq: number;
  /** News may have been missed. */
  reread: boolean;
  previews: readonly LiveEvent[];
}>;

/** A way for items that need not wait for their turn. */
export type Direct<Item> = Readonly<{ hasRoom: () => boolean; send: (item: Item) => void }>;

export type StreamMailbox = Disposable &
  Readonly<{
    listener: SessionListener;
    take: () => News;
    /**
     * Resolves on news, after `timeoutMs`, or when closed.
     * @param takes called for a preview if no other news waits; true: it is handled, and the wait goes on
     */
    wait: (timeoutMs: number, takes?: (preview: LiveEvent) => boolean) => Promise<void>;
    isClosed: () => boolean;
    closed: Promise<void>;
  }>;

type Waiting = {
  committedSeq: number;
  reread: boolean;
  previews: LiveEvent[];
  /** The length of all previews. */
  chars: number;
};

const noNews = (): Waiting => ({ committedSeq: 0, reread: false, previews: [], chars: 0 });

const hasNews = ({ committedSeq, reread, previews }: Waiting): boolean =>
  committedSeq > 0 || reread || previews.length > 0;

function addPreview(waiting: Waiting, event: LiveEvent): void {
  const { previews } = waiting;
  previews.push(event);
  waiting.chars += contentLength(event);
  while (previews.length > MAX_WAITING_PREVIEWS || (waiting.chars > MAX_WAITING_CHARS && previews.length > 1)) {
    const dropped = previews.shift();
    if (dropped !== undefined) waiting.chars -= contentLength(dropped);
  }
}

/** Holds the news of the bus for one reader, which may be slow. */
export function createStreamMailbox(): StreamMailbox {
  let waiting = noNews();
  const closing = Promise.withResolvers<void>();
  let closed = false;
  let wake: (() => void) | null = null;
  let takesAtOnce: (preview: LiveEvent) => boolean = () => false;

  const listener: SessionListener = {
    onCommitted(seq) {
      waiting.committedSeq = Math.max(waiting.committedSeq, seq);
      wake?.();
    },
    onPreview(event) {
      if (wake !== null && !closed && !hasNews(waiting) && takesAtOnce(event)) return;
      addPreview(waiting, event);
      wake?.();
    },
    onReconnected() {
      waiting.reread = true;
      wake?.();
    },
  };

  return {
    listener,
    take() {
      const { committedSeq, reread, previews } = waiting;
      waiting = noNews();
      return { committedSeq, reread, previews };
    },
    async wait(timeoutMs, takes = () => false) {
      if (closed || hasNews(waiting) || timeoutMs <= 0) return;
      const { promise, resolve } = Promise.withResolvers<void>();
      // `wake` is cleared first: a later preview must not overtake the reader that is about to take its news.
      const goOn = (): void => {
        wake = null;
        resolve();
      };
      const timer = setTimeout(goOn, timeoutMs);
      takesAtOnce = takes;
      wake = goOn;
      await promise;
      clearTimeout(timer);
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
