import { AsyncLocalStorage } from 'node:async_hooks';
import { setImmediate as nextRound } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import type { StreamItem } from '../../src/events/stream-item.ts';
import { openEventStream } from '../../src/events/subscribe.ts';
import { frameSourceOf, sseResponse, toSseFrame } from '../../src/http/sse.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { untilHolds } from '../support/until-holds.ts';
import { createSessionWriter, TENANT } from './session-writer.ts';
import { createUnreliableBus } from './unreliable-bus.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database[Symbol.asyncDispose]());

const event = (seq: number, content = 'x'): StreamItem => ({
  kind: 'event',
  epoch: null,
  event: {
    seq,
    type: 'llm:switched',
    runId: null,
    createdAt: '2026-01-02T03:04:05.000Z',
    data: { from: content, to: 'b' },
  },
});

test('a durable event has its number as id; previews, snapshots and heartbeats have none', () => {
  expect(
    toSseFrame({
      kind: 'event',
      epoch: null,
      event: {
        seq: 5,
        type: 'run:started',
        runId: 'run_1',
        createdAt: '2026-01-02T03:04:05.000Z',
        data: { runId: 'run_1' },
      },
    }),
  ).toBe(
    'id: 5\nevent: run:started\ndata: {"type":"run:started","seq":5,"runId":"run_1","createdAt":"2026-01-02T03:04:05.000Z","data":{"runId":"run_1"}}\n\n',
  );
  const data = { messageId: 'msg_1', epoch: 1, offset: 0, chunkType: 'text' as const, content: 'line\nbreak\r\n' };
  expect(toSseFrame({ kind: 'live', event: { type: 'llm:chunk', data } })).toBe(
    `event: llm:chunk\ndata: ${JSON.stringify({ type: 'llm:chunk', data })}\n\n`,
  );
  expect(toSseFrame({ kind: 'heartbeat', seq: 7 })).toBe(
    'event: heartbeat\ndata: {"type":"heartbeat","data":{"seq":7}}\n\n',
  );
});

test('a run that an event does not have is left out of its envelope', () => {
  expect(toSseFrame(event(1))).not.toContain('runId');
});

test('the response is an event stream that no proxy keeps back', () => {
  const response = sseResponse(() => itemsOf([]).stream, { signal: new AbortController().signal });
  expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
  expect(response.headers.get('cache-control')).toContain('no-cache');
  expect(response.headers.get('x-accel-buffering')).toBe('no');
});

test('a reader that keeps up gets everything, however much that is, and then the end', async () => {
  const source = itemsOf(Array.from({ length: 300 }, (_, index) => event(index + 1, 'x'.repeat(5_000))));
  const response = sseResponse(() => source.stream, { signal: new AbortController().signal, maxBufferedBytes: 10_000 });
  expect(idsOf(await response.text())).toEqual(Array.from({ length: 300 }, (_, index) => index + 1));
  await untilHolds(() => expect(source.returned).toBe(true));
});

test('a frame larger than the buffer gets through', async () => {
  const source = itemsOf([event(1, 'x'.repeat(50_000)), event(2)]);
  const response = sseResponse(() => source.stream, {
    signal: new AbortController().signal,
    maxBufferedBytes: 100,
    stallLimitMs: 60_000,
  });
  expect(idsOf(await response.text())).toEqual([1, 2]);
});

test('a reader that takes nothing is dropped with little in memory, while a fast one gets everything', async () => {
  const bus = createUnreliableBus(() => 'now');
  const writer = await createSessionWriter(database.db);
  const abort = new AbortController();
  const open = (stallLimitMs: number): Response => {
    const request = { tenantId: TENANT, sessionId: writer.sessionId, afterSeq: 0, signal: abort.signal };
    return sseResponse((direct) => openEventStream({ db: database.db, bus, direct }, request), {
      signal: abort.signal,
      maxBufferedBytes: 20_000,
      stallLimitMs,
    });
  };
  const slow = open(20).body?.getReader();
  await slow?.read();
  const fast = open(60_000);
  const reading = readUntil(fast, 201);
  await untilHolds(() => expect(bus.listenerCount()).toBe(2));
  for (let index = 0; index < 20; index += 1) {
    const events = Array.from({ length: 10 }, () => ({
      type: 'llm:switched' as const,
      data: { from: 'x'.repeat(1_000), to: 'b' },
    }));
    bus.announce(writer.sessionId, await writer.append(events));
  }
  expect(idsOf(await reading)).toEqual(Array.from({ length: 201 }, (_, index) => index + 1));
  await untilHolds(() => expect(bus.listenerCount()).toBe(1));
  await expect(slow?.read()).rejects.toMatchObject({ code: 'limit_exceeded' });
  abort.abort();
  await untilHolds(() => expect(bus.listenerCount()).toBe(0));
});

test('a slow reader that goes on reading is waited for', async () => {
  const source = itemsOf(Array.from({ length: 50 }, (_, index) => event(index + 1, 'x'.repeat(500))));
  const response = sseResponse(() => source.stream, {
    signal: new AbortController().signal,
    maxBufferedBytes: 1_000,
    stallLimitMs: 60_000,
  });
  const reader = response.body?.getReader();
  let received = '';
  for (;;) {
    const taken = source.taken;
    const chunk = await reader?.read();
    if (chunk === undefined || chunk.done) break;
    received += new TextDecoder().decode(chunk.value);
    expect(taken).toBeLessThan(idsOf(received).length + 5);
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect(idsOf(received)).toHaveLength(50);
});

test('a reader that leaves, and an abort, close the stream at once', async () => {
  const left = itemsOf([event(1)], 'goes on');
  const reader = sseResponse(() => left.stream, { signal: new AbortController().signal }).body?.getReader();
  await reader?.read();
  await reader?.cancel();
  await untilHolds(() => expect(left.returned).toBe(true));

  const abort = new AbortController();
  const aborted = itemsOf([event(1)], 'goes on');
  const body = sseResponse(() => aborted.stream, { signal: abort.signal }).text();
  await untilHolds(() => expect(aborted.taken).toBe(1));
  abort.abort();
  await body;
  await untilHolds(() => expect(aborted.returned).toBe(true));
});

test('a response that nobody reads asks for nothing, and is told of its end', async () => {
  const source = itemsOf([event(1)]);
  const onEnd = vi.fn<() => void>();
  const response = sseResponse(() => source.stream, { signal: new AbortController().signal, onEnd });
  await response.body?.cancel();
  expect(source.taken).toBe(0);
  expect(onEnd).toHaveBeenCalledOnce();
});

test('a stream belongs to what opened it, whoever reads it', async () => {
  const request = new AsyncLocalStorage<string>();
  const seen: unknown[] = [];
  async function* items(): AsyncGenerator<StreamItem> {
    seen.push(request.getStore());
    yield event(1);
  }
  const { signal } = new AbortController();
  const onEnd = (): void => void seen.push(request.getStore());
  const response = request.run('mine', () => sseResponse(() => items(), { signal, onEnd }));
  const sink = { write: () => undefined, bufferedBytes: () => 0, end: () => undefined, fail: () => undefined };
  request.run('of another', () => frameSourceOf(response)?.flowTo(sink));
  await untilHolds(() => expect(seen).toEqual(['mine', 'mine']));
});

test('what several readers are told alike is encoded once and has one place in memory', async () => {
  const item = event(1, 'x'.repeat(400_000));
  const written: Buffer[] = [];
  for (let reader = 0; reader < 3; reader++) write(itemsOf([item]).stream, (frame) => written.push(frame));
  await vi.waitFor(() => expect(written).toHaveLength(3));
  expect(String(written[0])).toBe(toSseFrame(item));
  expect(new Set(written).size).toBe(1);
});

test('of many readers that are told something at once few are written to in one round of the event loop', async () => {
  let written = 0;
  for (let reader = 0; reader < 500; reader++) write(itemsOf([event(reader)]).stream, () => written++);
  for (let before = 0; before < 500; before = written) {
    await nextRound();
    expect(written - before).toBeLessThanOrEqual(64);
  }
});

test('a stream that fails fails the body', async () => {
  const failure = new Error('no database');
  const stream: AsyncIterable<StreamItem> = { [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(failure) }) };
  await expect(sseResponse(() => stream, { signal: new AbortController().signal }).text()).rejects.toBe(failure);
});

/** Writes the frames of a stream as a server does. */
function write(stream: AsyncIterable<StreamItem>, onFrame: (frame: Buffer) => void): void {
  const sink = { write: onFrame, bufferedBytes: () => 0, end: () => undefined, fail: () => undefined };
  frameSourceOf(sseResponse(() => stream, { signal: new AbortController().signal }))?.flowTo(sink);
}

type Source = { stream: AsyncIterable<StreamItem>; taken: number; returned: boolean };

/** Items that are there at once; afterwards the end, or nothing until the consumer returns. */
function itemsOf(items: readonly StreamItem[], then: 'ends' | 'goes on' = 'ends'): Source {
  const over = Promise.withResolvers<IteratorResult<StreamItem>>();
  const source: Source = {
    taken: 0,
    returned: false,
    stream: {
      [Symbol.asyncIterator]: () => ({
        async next() {
          const item = items[source.taken];
          if (item !== undefined) {
            source.taken += 1;
            return { done: false, value: item };
          }
          return then === 'ends' ? { done: true, value: undefined } : over.promise;
        },
        async return() {
          source.returned = true;
          over.resolve({ done: true, value: undefined });
          return { done: true, value: undefined };
        },
      }),
    },
  };
  return source;
}

const idsOf = (frames: string): number[] => [...frames.matchAll(/^id: (\d+)$/gm)].map(([, id]) => Number(id));

/** Reads up to a frame and leaves the body open. */
async function readUntil(response: Response, lastId: number): Promise<string> {
  const decoder = new TextDecoder();
  const reader = response.body?.getReader();
  let received = '';
  while (!received.includes(`id: ${lastId}\n`) || !received.endsWith('\n\n')) {
    const chunk = await reader?.read();
    if (chunk === undefined || chunk.done) break;
    received += decoder.decode(chunk.value, { stream: true });
  }
  return received;
}
