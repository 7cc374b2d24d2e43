import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { TEXT_DURABLE_WITHIN_MS } from '../../src/domain/tunables.ts';
import { createTextStream } from '../../src/step/text-stream.ts';
import type { TextChunk } from '../../src/store/work/step-writes.ts';

type Written = TextChunk & Readonly<{ atMs: number }>;

/** A store that refuses as many writes as it is told. */
function recordingStore(refusals = 0) {
  const written: Written[] = [];
  const attempts: (readonly TextChunk[])[] = [];
  const write = async (chunks: readonly TextChunk[]): Promise<void> => {
    attempts.push(chunks);
    if (attempts.length <= refusals) throw new Error('the store is away');
    written.push(...chunks.map((chunk) => ({ ...chunk, atMs: Date.now() })));
  };
  return { write, written, attempts, texts: () => written.map((chunk) => chunk.text) };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const wait = (ms: number) => vi.advanceTimersByTimeAsync(ms);

describe('streamed text', () => {
  it('is written as one chunk per part, in order, each where it begins in the message', async () => {
    const store = recordingStore();
    await using stream = createTextStream(store.write);
    stream.push('reasoning', 1, 'I ');
    stream.push('reasoning', 1, 'think.');
    stream.push('text', 2, 'Hello');
    await wait(TEXT_DURABLE_WITHIN_MS);
    stream.push('text', 2, ', you');
    stream.push('reasoning', 3, '?');
    stream.push('text', 2, '!');
    await wait(TEXT_DURABLE_WITHIN_MS);
    expect(store.attempts).toEqual([
      [
        { charOffset: 0, partIndex: 1, type: 'reasoning', text: 'I think.' },
        { charOffset: 8, partIndex: 2, type: 'text', text: 'Hello' },
      ],
      [
        { charOffset: 13, partIndex: 2, type: 'text', text: ', you' },
        { charOffset: 18, partIndex: 3, type: 'reasoning', text: '?' },
        { charOffset: 19, partIndex: 2, type: 'text', text: '!' },
      ],
    ]);
  });

  it('is durable within its time, however it comes, and whatever the pauses are', async () => {
    const push = fc.record({ pauseMs: fc.nat(400), text: fc.string({ minLength: 1, maxLength: 5 }) });
    await fc.assert(
      fc.asyncProperty(fc.array(push, { minLength: 1, maxLength: 20 }), async (pushes) => {
        const store = recordingStore();
        await using stream = createTextStream(store.write);
        const pushed: { end: number; atMs: number }[] = [];
        let end = 0;
        for (const { pauseMs, text } of pushes) {
          await wait(pauseMs);
          stream.push('text', 1, text);
          end += text.length;
          pushed.push({ end, atMs: Date.now() });
        }
        await wait(TEXT_DURABLE_WITHIN_MS);
        expect(store.texts().join('')).toBe(pushes.map(({ text }) => text).join(''));
        for (const { end: upTo, atMs } of pushed) {
          const chunk = store.written.find(({ charOffset, text }) => charOffset + text.length >= upTo);
          expect((chunk?.atMs ?? Number.POSITIVE_INFINITY) - atMs).toBeLessThanOrEqual(TEXT_DURABLE_WITHIN_MS);
        }
      }),
    );
  });

  it('is neither lost nor doubled nor reordered while writes fail', async () => {
    const pushes = fc.array(fc.tuple(fc.nat(300), fc.string({ minLength: 1, maxLength: 4 }), fc.nat(2)), {
      minLength: 1,
      maxLength: 20,
    });
    await fc.assert(
      fc.asyncProperty(pushes, fc.nat(6), async (given, refusals) => {
        const store = recordingStore(refusals);
        await using stream = createTextStream(store.write);
        for (const [pauseMs, text, partIndex] of given) {
          await wait(pauseMs);
          stream.push('text', partIndex, text);
        }
        await wait((refusals + 1) * TEXT_DURABLE_WITHIN_MS);
        expect(store.texts().join('')).toBe(given.map(([, text]) => text).join(''));
        expect(store.written.map(({ charOffset }) => charOffset)).toEqual(
          store.texts().map((_, index, texts) => texts.slice(0, index).join('').length),
        );
      }),
    );
  });

  it('is tried again in the same pieces: a write without an answer may have been committed', async () => {
    const store = recordingStore(1);
    await using stream = createTextStream(store.write);
    stream.push('text', 1, 'one');
    await wait(TEXT_DURABLE_WITHIN_MS);
    stream.push('text', 1, 'two');
    await wait(TEXT_DURABLE_WITHIN_MS);
    expect(store.attempts[1]).toEqual([
      { charOffset: 0, partIndex: 1, type: 'text', text: 'one' },
      { charOffset: 3, partIndex: 1, type: 'text', text: 'two' },
    ]);
  });

  it('keeps a character whole that comes in two halves, even when a write falls between them', async () => {
    const store = recordingStore();
    await using stream = createTextStream(store.write);
    stream.push('text', 1, 'a\uD83D');
    await wait(TEXT_DURABLE_WITHIN_MS);
    stream.push('text', 1, '\uDE00b\uD83D');
    await wait(TEXT_DURABLE_WITHIN_MS);
    stream.push('text', 1, '\uDE01');
    await wait(TEXT_DURABLE_WITHIN_MS);
    expect(store.written.map(({ charOffset, text }) => [charOffset, text])).toEqual([
      [0, 'a'],
      [1, '😀b'],
      [4, '😁'],
    ]);
  });

  it('is written by one write at a time', async () => {
    const first = Promise.withResolvers<void>();
    const begun: string[] = [];
    await using stream = createTextStream(async (chunks) => {
      begun.push(chunks.map(({ text }) => text).join(''));
      if (begun.length === 1) await first.promise;
    });
    stream.push('text', 1, 'one');
    await wait(TEXT_DURABLE_WITHIN_MS);
    stream.push('text', 1, 'two');
    await wait(10 * TEXT_DURABLE_WITHIN_MS);
    expect(begun).toEqual(['one']);
    first.resolve();
    await wait(0);
    expect(begun).toEqual(['one', 'two']);
  });

  it('is left to the caller once the stream is closed: no timer, no write, and the one under way is waited for', async () => {
    const gate = Promise.withResolvers<void>();
    const done: string[] = [];
    const stream = createTextStream(async (chunks) => {
      await gate.promise;
      done.push(chunks.map(({ text }) => text).join(''));
    });
    stream.push('text', 1, 'one');
    await wait(TEXT_DURABLE_WITHIN_MS);
    stream.push('text', 1, 'two');
    const closed = stream.close().then(() => done.push('closed'));
    expect(vi.getTimerCount()).toBe(0);
    gate.resolve();
    await closed;
    stream.push('text', 1, 'three');
    expect(vi.getTimerCount()).toBe(0);
    await wait(10 * TEXT_DURABLE_WITHIN_MS);
    expect(done).toEqual(['one', 'closed']);
  });

  it('has no timer while nothing streams', async () => {
    await using stream = createTextStream(recordingStore().write);
    expect(vi.getTimerCount()).toBe(0);
    stream.push('text', 1, 'x');
    expect(vi.getTimerCount()).toBe(1);
    await wait(TEXT_DURABLE_WITHIN_MS);
    expect(vi.getTimerCount()).toBe(0);
  });
});
