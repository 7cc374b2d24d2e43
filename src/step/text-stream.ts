import { TEXT_DURABLE_WITHIN_MS } from '../domain/tunables.ts';
import type { TextChunk } from '../store/work/step-writes.ts';

/** A flush starts this early, so that it is committed in time. */
const FLUSH_AFTER_MS = TEXT_DURABLE_WITHIN_MS - 50;

export type TextStream = AsyncDisposable &
  Readonly<{
    push: (type: 'text' | 'reasoning', partIndex: number, text: string) => void;
    /** Stops the timer and waits for the current write. The caller keeps unwritten text. */
    close: () => Promise<void>;
  }>;

/**
 * Makes text durable while it streams, as one appended chunk per part and flush. A failed write is repeated with the
 * next one in the same pieces, because it may have been committed.
 */
export function createTextStream(write: (chunks: readonly TextChunk[]) => Promise<void>): TextStream {
  let offset = 0;
  let tried: readonly TextChunk[] = [];
  let buffered: TextChunk[] = [];
  let timer: NodeJS.Timeout | null = null;
  let writing: Promise<void> = Promise.resolve();
  let closed = false;

  const schedule = (): void => {
    if (timer !== null || closed) return;
    timer = setTimeout(() => {
      timer = null;
      writing = writing.then(flush);
    }, FLUSH_AFTER_MS);
  };
  const flush = async (): Promise<void> => {
    const { whole, half } = splitPair(buffered);
    tried = [...tried, ...whole];
    buffered = half;
    if (tried.length === 0) return;
    try {
      await write(tried);
      tried = [];
    } catch {
      schedule();
    }
  };
  const close = async (): Promise<void> => {
    closed = true;
    if (timer !== null) clearTimeout(timer);
    timer = null;
    await writing;
  };
  return {
    push(type, partIndex, text) {
      const last = buffered.at(-1);
      if (last !== undefined && last.partIndex === partIndex && last.type === type) {
        buffered[buffered.length - 1] = { ...last, text: last.text + text };
      } else {
        buffered.push({ charOffset: offset, partIndex, type, text });
      }
      offset += text.length;
      schedule();
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** Holds back the first half of a surrogate pair until the second comes: Postgres refuses it alone. */
function splitPair(chunks: readonly TextChunk[]): { whole: TextChunk[]; half: TextChunk[] } {
  const last = chunks.at(-1);
  if (last === undefined || !/[\uD800-\uDBFF]$/.test(last.text)) return { whole: [...chunks], half: [] };
  const end = last.text.length - 1;
  const before = end === 0 ? [] : [{ ...last, text: last.text.slice(0, end) }];
  const half = { ...last, charOffset: last.charOffset + end, text: last.text.slice(end) };
  return { whole: [...chunks.slice(0, -1), ...before], half: [half] };
}
