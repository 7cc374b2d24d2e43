import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { LiveBus } from '../../src/events/live-bus.ts';
import { createPostgresBus } from '../../src/events/postgres-bus.ts';
import { createRedisBus } from '../../src/events/redis-bus.ts';
import { newId } from '../../src/platform/new-id.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { untilHolds } from '../support/until-holds.ts';
import { type BusFixture, busBackends } from './buses.ts';
import { chunk, chunksOf, committedSeqs, listen } from './listening.ts';

describe.each(busBackends)('the live bus over $name', ({ create }) => {
  let database: TestDatabase;
  let fixture: BusFixture;
  let sender: LiveBus;
  let receiver: LiveBus;

  beforeAll(async () => {
    database = await createTestDatabase();
    fixture = create(database);
    sender = await fixture.open();
    receiver = await fixture.open();
  });
  afterAll(async () => {
    await sender[Symbol.asyncDispose]();
    await receiver[Symbol.asyncDispose]();
    await database[Symbol.asyncDispose]();
  });

  test('every listener of a session is told, on every end of the bus, and no listener of another session', async () => {
    const [sessionId, otherId] = [newId(), newId()];
    using here = await listen(sender, sessionId);
    using there = await listen(receiver, sessionId);
    using again = await listen(receiver, sessionId);
    using other = await listen(receiver, otherId);
    sender.announce(sessionId, 7);
    sender.announce(otherId, 3);
    await untilHolds(() => {
      for (const { heard } of [here, there, again]) expect(heard).toEqual([{ kind: 'committed', seq: 7 }]);
      expect(other.heard).toEqual([{ kind: 'committed', seq: 3 }]);
    });
  });

  test('what is published of a session arrives in that order', async () => {
    const sessionId = newId();
    using reader = await listen(receiver, sessionId);
    sender.announce(sessionId, 1);
    sender.preview(sessionId, chunk(0, 'before'));
    await sender.flush();
    sender.preview(sessionId, chunk(6, ' and after'));
    sender.announce(sessionId, 2);
    await untilHolds(() => expect(committedSeqs(reader.heard)).toContain(2));
    expect(reader.heard).toEqual([
      { kind: 'committed', seq: 1 },
      { kind: 'preview', event: chunk(0, 'before') },
      { kind: 'preview', event: chunk(6, ' and after') },
      { kind: 'committed', seq: 2 },
    ]);
  });

  test('announcements of one moment are one, with the highest number', async () => {
    const sessionId = newId();
    using reader = await listen(receiver, sessionId);
    for (const seq of [3, 5, 4]) sender.announce(sessionId, seq);
    await sender.flush();
    sender.announce(sessionId, 6);
    await untilHolds(() => expect(committedSeqs(reader.heard)).toEqual([5, 6]));
  });

  test('adjacent deltas of one type are joined, others are not', async () => {
    const sessionId = newId();
    using reader = await listen(receiver, sessionId);
    for (let offset = 0; offset < 100; offset += 1) sender.preview(sessionId, chunk(offset, 'x'));
    sender.preview(sessionId, chunk(100, 'thought', 'reasoning'));
    sender.preview(sessionId, chunk(200, 'after a gap', 'reasoning'));
    sender.announce(sessionId, 1);
    await untilHolds(() => expect(committedSeqs(reader.heard)).toEqual([1]));
    expect(chunksOf(reader.heard)).toEqual([
      { offset: 0, content: 'x'.repeat(100), chunkType: 'text' },
      { offset: 100, content: 'thought', chunkType: 'reasoning' },
      { offset: 200, content: 'after a gap', chunkType: 'reasoning' },
    ]);
  });

  test('a delta leaves without anybody asking for it', async () => {
    const sessionId = newId();
    using reader = await listen(receiver, sessionId);
    sender.preview(sessionId, chunk(0, 'alone'));
    await untilHolds(() => expect(chunksOf(reader.heard)).toHaveLength(1));
  });

  test('text of any length arrives whole and in order, in pieces that cut no character', async () => {
    const sessionId = newId();
    using reader = await listen(receiver, sessionId);
    const text = `${'é語"\\\n\u0001'.repeat(9_999)}${'😀'.repeat(33_333)}`;
    sender.preview(sessionId, chunk(0, text));
    sender.announce(sessionId, 1);
    await untilHolds(() => expect(committedSeqs(reader.heard)).toEqual([1]));
    const pieces = chunksOf(reader.heard);
    expect(pieces.length).toBeGreaterThan(1);
    let offset = 0;
    for (const piece of pieces) {
      expect(piece.offset).toBe(offset);
      expect(piece.content.isWellFormed()).toBe(true);
      offset += piece.content.length;
    }
    expect(pieces.map(({ content }) => content).join('')).toBe(text);
  });

  test('a request to cancel reaches everybody who waits for one', async () => {
    const runId = newId();
    const heard: string[] = [];
    using _here = await sender.onCancel((id) => void heard.push(id));
    using _there = await receiver.onCancel((id) => void heard.push(id));
    sender.requestCancel(runId);
    await untilHolds(() => expect(heard).toEqual([runId, runId]));
  });

  test('whoever stops to listen is told nothing more, and the others still are', async () => {
    const sessionId = newId();
    using stays = await listen(receiver, sessionId);
    const leaves = await listen(receiver, sessionId);
    sender.announce(sessionId, 1);
    await untilHolds(() => expect(committedSeqs(leaves.heard)).toEqual([1]));
    leaves[Symbol.dispose]();
    sender.announce(sessionId, 2);
    await untilHolds(() => expect(committedSeqs(stays.heard)).toEqual([1, 2]));
    expect(committedSeqs(leaves.heard)).toEqual([1]);
  });

  test('a session that nobody listened to any more can be listened to again', async () => {
    const sessionId = newId();
    for (const seq of [1, 2, 3]) {
      using reader = await listen(receiver, sessionId);
      sender.announce(sessionId, seq);
      await untilHolds(() => expect(committedSeqs(reader.heard)).toEqual([seq]));
    }
  });

  test('a listener that throws is reported and harms no other', async () => {
    const errors: unknown[] = [];
    await using bus = await fixture.open((error) => void errors.push(error));
    const sessionId = newId();
    const failure = new Error('listener');
    const fail = (): never => {
      throw failure;
    };
    using _bad = await bus.onSession(sessionId, { onCommitted: fail, onPreview: fail, onReconnected: fail });
    using good = await listen(bus, sessionId);
    sender.announce(sessionId, 1);
    await untilHolds(() => expect(committedSeqs(good.heard)).toEqual([1]));
    expect(errors).toEqual([failure]);
  });

  test('cut connections come back: listeners are told to read again, errors are reported, news flows', async () => {
    const errors: unknown[] = [];
    await using bus = await fixture.open((error) => void errors.push(error));
    const sessionId = newId();
    using reader = await listen(bus, sessionId);
    for (const round of [1, 2]) {
      await fixture.cutConnections();
      bus.preview(sessionId, chunk(0, 'into the void'));
      await untilHolds(() => expect(reader.heard.filter(({ kind }) => kind === 'reconnected')).toHaveLength(round));
      // Its sending connection may be back a moment later than its receiving one.
      await untilHolds(() => {
        bus.announce(sessionId, round);
        expect(committedSeqs(reader.heard)).toContain(round);
      });
    }
    expect(errors.length).toBeGreaterThan(0);
  });

  test('a closed bus resolves every flush and throws at nobody', async () => {
    const bus = await fixture.open();
    const reader = await listen(bus, newId());
    await bus[Symbol.asyncDispose]();
    bus.announce(newId(), 1);
    bus.preview(newId(), chunk(0, 'late'));
    bus.requestCancel(newId());
    await bus.flush();
    reader[Symbol.dispose]();
  });
});

test('a bus that cannot connect says so at once', async () => {
  await expect(createPostgresBus({ connectionString: 'postgres://postgres@127.0.0.1:1/none' })).rejects.toThrow();
  await expect(createRedisBus({ url: 'redis://127.0.0.1:1', prefix: 'baton-test' })).rejects.toThrow();
});

test('a prefix that Postgres would cut is refused', async () => {
  const options = { connectionString: 'postgres://postgres@127.0.0.1:1/none', prefix: 'p'.repeat(59) };
  await expect(createPostgresBus(options)).rejects.toMatchObject({ code: 'config_invalid' });
});
