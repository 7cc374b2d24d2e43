import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { LiveBus } from '../../src/events/live-bus.ts';
import { openEventStream, type StreamDeps } from '../../src/events/subscribe.ts';
import { newId } from '../../src/platform/new-id.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { type BusFixture, busBackends } from './buses.ts';
import { hasSeq, publish, seqsOf, snapshotsOf, startReader, toldOf } from './reader.ts';
import { createSessionWriter, type Delta, TENANT, textOf, typedText } from './session-writer.ts';
import { createUnreliableBus } from './unreliable-bus.ts';

const text = (content: string): Delta => ({ type: 'text', text: content });
const thought = (content: string): Delta => ({ type: 'reasoning', text: content });
const switched = (name: string) => ({ type: 'llm:switched' as const, data: { from: name, to: name } });

/** No poll and no retry within a test: what arrives came over the bus. */
const NEVER = { pollIntervalMs: 600_000, fillRetryMs: 600_000, heartbeatIntervalMs: 600_000 };

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database[Symbol.asyncDispose]());

describe.each(busBackends)('following a session over $name', ({ create }) => {
  let fixture: BusFixture;
  let worker: LiveBus;
  let api: LiveBus;
  let deps: StreamDeps;

  beforeAll(async () => {
    fixture = create(database);
    worker = await fixture.open();
    api = await fixture.open();
    deps = { db: database.db, bus: api, timing: NEVER };
  });
  afterAll(async () => {
    await worker[Symbol.asyncDispose]();
    await api[Symbol.asyncDispose]();
  });

  test('readers that joined before, in the middle of a message and after it agree on its text', async () => {
    const writer = await createSessionWriter(database.db);
    await using early = startReader(deps, writer.sessionId, 0);
    await early.until(({ kind }) => kind === 'snapshot');
    const { message, seq } = await writer.startMessage();
    worker.announce(writer.sessionId, seq);
    for (const delta of [thought('hm, '), thought('well. '), text('Good '), text('morning')]) {
      publish(worker, writer, message, delta);
    }
    await writer.persist(message);
    await early.until(() => textOf(toldOf(early.items, message.publicId).pieces) === 'hm, well. Good morning');

    await using middle = startReader(deps, writer.sessionId, null);
    await middle.until(({ kind }) => kind === 'snapshot');
    expect(snapshotsOf(middle.items)[0]?.inFlight?.chunks).toEqual([
      { chunkType: 'reasoning', content: 'hm, well. ', offset: 0 },
      { chunkType: 'text', content: 'Good morning', offset: 10 },
    ]);
    publish(worker, writer, message, text(', dear 😀 reader'));
    await worker.flush();
    const responded = await writer.respond(message);
    worker.announce(writer.sessionId, responded);
    await using late = startReader(deps, writer.sessionId, 0);
    for (const reader of [early, middle, late]) {
      await reader.until(hasSeq(responded));
      const told = toldOf(reader.items, message.publicId);
      expect(told.problems).toEqual([]);
      expect(typedText(told.pieces)).toBe('reasoning:hm, well. |text:Good morning, dear 😀 reader');
    }
    expect(seqsOf(early.items)).toEqual([1, 2, 3]);
    expect(seqsOf(middle.items)).toEqual([3]);
  });

  test('a delta reaches the reader before anything of it is durable', async () => {
    const writer = await createSessionWriter(database.db);
    const { message, seq } = await writer.startMessage();
    await using reader = startReader(deps, writer.sessionId, seq);
    await reader.until(({ kind }) => kind === 'snapshot');
    publish(worker, writer, message, text('soon'));
    const item = await reader.until(({ kind }) => kind === 'live');
    expect(item).toEqual({
      kind: 'live',
      event: {
        type: 'llm:chunk',
        data: { messageId: message.publicId, epoch: message.epoch, offset: 0, chunkType: 'text', content: 'soon' },
      },
    });
  });

  test('after a cut connection the reader reads again what it missed', async () => {
    const writer = await createSessionWriter(database.db);
    await using reader = startReader(deps, writer.sessionId, 0);
    const { message } = await writer.startMessage();
    await reader.until(({ kind }) => kind === 'snapshot');
    writer.stream(message, text('nobody published this'));
    await writer.persist(message);
    const seq = await writer.append([switched('unannounced')]);
    await fixture.cutConnections();
    await reader.until(hasSeq(seq));
    await reader.until(() => textOf(toldOf(reader.items, message.publicId).pieces) === 'nobody published this');
  });

  test('many readers get the same events in the same order', async () => {
    const writer = await createSessionWriter(database.db);
    const readers = Array.from({ length: 5 }, () => startReader(deps, writer.sessionId, 0));
    await using _readers = {
      [Symbol.asyncDispose]: async () =>
        void (await Promise.all(readers.map((reader) => reader[Symbol.asyncDispose]()))),
    };
    await Promise.all(readers.map((reader) => reader.until(({ kind }) => kind === 'snapshot')));
    let last = 1;
    for (let index = 0; index < 20; index += 1) {
      last = await writer.append([switched(`a${index}`), switched(`b${index}`)]);
      worker.announce(writer.sessionId, last);
    }
    const expected = Array.from({ length: last }, (_, index) => index + 1);
    for (const reader of readers) {
      await reader.until(hasSeq(last));
      expect(seqsOf(reader.items)).toEqual(expected);
    }
  });
});

describe('leaving', () => {
  const bus = createUnreliableBus(() => 'now');
  const open = (sessionId: string, signal: AbortSignal) =>
    openEventStream({ db: database.db, bus, timing: NEVER }, { tenantId: TENANT, sessionId, afterSeq: 0, signal })[
      Symbol.asyncIterator
    ]();

  test('an abort ends the stream and leaves no listener, wherever the reader is', async () => {
    const { sessionId } = await createSessionWriter(database.db);
    const abort = new AbortController();
    const [waiting, parked] = [open(sessionId, abort.signal), open(sessionId, abort.signal)];
    await parked.next();
    await waiting.next();
    await waiting.next();
    const pending = waiting.next();
    expect(bus.listenerCount()).toBe(2);
    abort.abort();
    expect(bus.listenerCount()).toBe(0);
    for (const next of [pending, waiting.next(), parked.next()]) expect((await next).done).toBe(true);
  });

  test('a consumer that stops leaves no listener, also while it waits for an item', async () => {
    const { sessionId } = await createSessionWriter(database.db);
    const { signal } = new AbortController();
    const iterator = open(sessionId, signal);
    await iterator.next();
    await iterator.next();
    const pending = iterator.next();
    await iterator.return?.();
    expect((await pending).done).toBe(true);
    expect(bus.listenerCount()).toBe(0);

    const stream = openEventStream({ db: database.db, bus }, { tenantId: TENANT, sessionId, afterSeq: 0, signal });
    for await (const item of stream) if (item.kind === 'event') break;
    expect(bus.listenerCount()).toBe(0);
  });

  test('a stream whose signal was aborted before subscribes to nothing', async () => {
    const iterator = open(newId(), AbortSignal.abort());
    expect((await iterator.next()).done).toBe(true);
    expect(bus.listenerCount()).toBe(0);
  });
});
