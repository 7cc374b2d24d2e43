import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { formatId } from '../../src/domain/ids.ts';
import type { StreamItem } from '../../src/events/stream-item.ts';
import { openEventStream } from '../../src/events/subscribe.ts';
import { beginHistory, createHistoryWatch } from '../../src/store/db/history.ts';
import { countStatements } from '../support/count-statements.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { untilHolds } from '../support/until-holds.ts';
import { hasSeq, isEvent, publish, seqsOf, startReader, toldOf } from './reader.ts';
import { createSessionWriter, type Delta, TENANT, textOf } from './session-writer.ts';
import { createUnreliableBus } from './unreliable-bus.ts';

const text = (content: string): Delta => ({ type: 'text', text: content });
const switched = (name: string) => ({ type: 'llm:switched' as const, data: { from: name, to: name } });

/** No poll and no retry within a test: what arrives came over the bus. */
const NEVER = { pollIntervalMs: 600_000, fillRetryMs: 600_000, heartbeatIntervalMs: 600_000 };

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database[Symbol.asyncDispose]());

describe('following', () => {
  const POLLING = { ...NEVER, pollIntervalMs: 10 };

  test('a bus that loses everything costs a delay, not an event and not a character', async () => {
    const bus = createUnreliableBus(() => 'lost');
    const writer = await createSessionWriter(database.db);
    await using reader = startReader({ db: database.db, bus, timing: POLLING }, writer.sessionId, 0);
    const { message } = await writer.startMessage();
    publish(bus, writer, message, text('persisted'));
    await writer.persist(message);
    await reader.until(() => textOf(toldOf(reader.items, message.publicId).pieces) === 'persisted');
    publish(bus, writer, message, text(' and not'));
    await reader.until(hasSeq(await writer.respond(message)));
    expect(toldOf(reader.items, message.publicId)).toEqual({
      pieces: [text('persisted'), text(' and not')],
      problems: [],
      ended: 'response',
    });
  });

  test('a delta that goes on is there as soon as it comes, unless its reader has no room', async () => {
    const bus = createUnreliableBus(() => 'now');
    const writer = await createSessionWriter(database.db);
    const { message } = await writer.startMessage();
    let room = true;
    const deps = { db: database.db, bus, timing: NEVER };
    await using reader = startReader(deps, writer.sessionId, 0, () => room);
    const seen = (): string => textOf(toldOf(reader.items, message.publicId).pieces);
    await reader.until(isEvent('step:started'));
    publish(bus, writer, message, text('first'));
    await reader.until(() => seen() === 'first');
    // The reader waits for news again.
    await new Promise((resolve) => setImmediate(resolve));
    publish(bus, writer, message, text(', at once'));
    expect(seen()).toBe('first, at once');
    room = false;
    publish(bus, writer, message, text(', no room'));
    room = true;
    publish(bus, writer, message, text(', behind it'));
    expect(seen()).toBe('first, at once');
    await reader.until(() => seen() === 'first, at once, no room, behind it');
    expect(toldOf(reader.items, message.publicId).problems).toEqual([]);
  });

  test('a delta ahead of its predecessor waits for the persisted text', async () => {
    const bus = createUnreliableBus(() => 'now');
    const writer = await createSessionWriter(database.db);
    const timing = { ...NEVER, fillRetryMs: 5 };
    const { message } = await writer.startMessage();
    await using reader = startReader({ db: database.db, bus, timing }, writer.sessionId, 0, () => true);
    await reader.until(isEvent('step:started'));
    publish(bus, writer, message, text('both '));
    await reader.until(() => textOf(toldOf(reader.items, message.publicId).pieces) === 'both ');
    await new Promise((resolve) => setImmediate(resolve));
    writer.stream(message, text('lost '));
    publish(bus, writer, message, text('found'));
    publish(bus, writer, message, text('!'));
    await writer.persist(message);
    await reader.until(() => textOf(toldOf(reader.items, message.publicId).pieces) === 'both lost found!');
    expect(toldOf(reader.items, message.publicId).problems).toEqual([]);
  });

  test('deltas of a lower epoch, of a message that was reset, and known ones are dropped', async () => {
    const bus = createUnreliableBus(() => 'twice');
    const writer = await createSessionWriter(database.db);
    await using reader = startReader({ db: database.db, bus, timing: NEVER }, writer.sessionId, 0);
    await reader.until(hasSeq(1));
    const first = await writer.startMessage();
    bus.announce(writer.sessionId, first.seq);
    publish(bus, writer, first.message, text('in vain'));
    await reader.until(({ kind }) => kind === 'live');
    bus.announce(writer.sessionId, await writer.reset(first.message));
    const second = await writer.startMessage();
    bus.announce(writer.sessionId, second.seq);
    await reader.until(hasSeq(second.seq));
    publish(bus, writer, first.message, text(' from a worker that lost it'));
    publish(bus, writer, second.message, text('again'));
    publish(bus, writer, { ...second.message, epoch: first.message.epoch }, text('fenced'));
    await reader.until(() => toldOf(reader.items, second.message.publicId).pieces.length > 0);
    const responded = await writer.respond({ ...second.message, deltas: [text('again'), text(' and well')] });
    bus.announce(writer.sessionId, responded);
    await reader.until(hasSeq(responded));
    expect(toldOf(reader.items, first.message.publicId)).toEqual({
      pieces: [text('in vain')],
      problems: [],
      ended: 'reset',
    });
    expect(textOf(toldOf(reader.items, second.message.publicId).pieces)).toBe('again and well');
  });

  test('a reader of a lost history gets a reset, and then all events of the history that is there', async () => {
    const bus = createUnreliableBus(() => 'lost');
    const watch = createHistoryWatch(() => undefined);
    await using _watching = await watch.begin(database.db);
    const writer = await createSessionWriter(database.db);
    const { message } = await writer.startMessage();
    const lost = await writer.respond({ ...message, deltas: [text('never was')] });
    const deps = { db: database.db, bus, timing: POLLING };
    await using reader = startReader(deps, writer.sessionId, 0);
    await reader.until(hasSeq(lost));
    const lostEpoch = watch.epoch();
    // Postgres goes back to before the answer, and another event gets its number.
    await sql`delete from events where session_id = ${writer.sessionId} and seq >= ${lost}`.execute(database.db);
    await sql`update sessions set event_seq = ${lost - 1} where id = ${writer.sessionId}`.execute(database.db);
    const seq = await writer.append([switched('elsewhere')]);
    expect(seq).toBe(lost);
    await beginHistory(database.db);
    const isReset = (item: StreamItem) => item.kind === 'snapshot' && item.data.reset;
    await reader.until(isReset);
    await reader.until(isEvent('llm:switched'));
    const after = reader.items.slice(reader.items.findIndex(isReset));
    expect(seqsOf(after)).toEqual(Array.from({ length: seq }, (_, index) => index + 1));
    // A reader that comes back with an id of the lost history is told, too; one with a bare number cannot be.
    const told = async (afterEpoch: string | null): Promise<boolean> => {
      const signal = AbortSignal.timeout(60_000);
      const request = { tenantId: TENANT, sessionId: writer.sessionId, afterSeq: seq, afterEpoch, signal };
      for await (const item of openEventStream(deps, request)) return isReset(item);
      return false;
    };
    expect([await told(lostEpoch), await told(watch.epoch()), await told(null)]).toEqual([true, false, false]);
  });

  test('a message that ends without a response is completed by the end of its step or run', async () => {
    const bus = createUnreliableBus(() => 'lost');
    const writer = await createSessionWriter(database.db);
    await using reader = startReader({ db: database.db, bus, timing: POLLING }, writer.sessionId, 0);
    const { message } = await writer.startMessage();
    writer.stream(message, text('cut o'));
    await reader.until(isEvent('step:started'));
    await database.db
      .insertInto('parts')
      .values({
        message_id: message.id,
        idx: 0,
        session_id: writer.sessionId,
        type: 'text',
        content: JSON.stringify(text('cut o')),
      })
      .execute();
    const seq = await writer.completeStep(message);
    await reader.until(hasSeq(seq));
    expect(textOf(toldOf(reader.items, message.publicId).pieces)).toBe('cut o');
    expect(reader.items.at(-1)).toMatchObject({ kind: 'event' });
  });

  test('a reader that joins between a response and the end of its step is not told the text again', async () => {
    const bus = createUnreliableBus(() => 'now');
    const writer = await createSessionWriter(database.db);
    const { message } = await writer.startMessage();
    writer.stream(message, text('done'));
    await writer.respond(message);
    await using reader = startReader({ db: database.db, bus, timing: NEVER }, writer.sessionId, null);
    await reader.until(({ kind }) => kind === 'snapshot');
    const seq = await writer.completeStep(message);
    bus.announce(writer.sessionId, seq);
    await reader.until(hasSeq(seq));
    expect(reader.items.map(({ kind }) => kind)).toEqual(['snapshot', 'event']);
  });

  test('thinking is told once, and not after the text has begun', async () => {
    const bus = createUnreliableBus(() => 'twice');
    const writer = await createSessionWriter(database.db);
    const { message } = await writer.startMessage();
    await using reader = startReader({ db: database.db, bus, timing: NEVER }, writer.sessionId, 0);
    await reader.until(isEvent('step:started'));
    const data = { runId: formatId('run', writer.runId), step: 1, attempt: 1, messageId: message.publicId };
    bus.preview(writer.sessionId, { type: 'llm:thinking', data });
    publish(bus, writer, message, text('a'));
    bus.preview(writer.sessionId, { type: 'llm:thinking', data });
    publish(bus, writer, message, text('b'));
    await reader.until(() => textOf(toldOf(reader.items, message.publicId).pieces) === 'ab');
    const live = reader.items.flatMap((item) => (item.kind === 'live' ? [item.event.type] : []));
    expect(live).toEqual(['llm:thinking', 'llm:chunk', 'llm:chunk']);
  });

  test('heartbeats carry the last event, while nothing happens', async () => {
    const bus = createUnreliableBus(() => 'now');
    const writer = await createSessionWriter(database.db);
    const seq = await writer.append([switched('x')]);
    const timing = { ...NEVER, heartbeatIntervalMs: 5 };
    await using reader = startReader({ db: database.db, bus, timing }, writer.sessionId, 0);
    await reader.until(() => reader.items.filter(({ kind }) => kind === 'heartbeat').length >= 3);
    expect(reader.items.findLast(({ kind }) => kind === 'heartbeat')).toEqual({ kind: 'heartbeat', seq });
  });

  test('a read that fails is reported and tried again', async () => {
    const bus = createUnreliableBus(() => 'now');
    const writer = await createSessionWriter(database.db);
    const errors: unknown[] = [];
    const reader = startReader(
      { db: database.db, bus, timing: POLLING, onError: (error) => void errors.push(error) },
      writer.sessionId,
      0,
    );
    await using _reader = reader;
    await reader.until(hasSeq(1));
    await database.db.schema.alterTable('events').renameTo('events_away').execute();
    bus.announce(writer.sessionId, 2);
    await untilHolds(() => expect(errors.length).toBeGreaterThan(0));
    await database.db.schema.alterTable('events_away').renameTo('events').execute();
    await reader.until(hasSeq(await writer.append([switched('back')])));
  });

  test('readers that are told of an event together share one look at it, and get it once each', async () => {
    const bus = createUnreliableBus(() => 'now');
    const writer = await createSessionWriter(database.db);
    const { db, seen } = countStatements(database.db);
    await using stack = new AsyncDisposableStack();
    const readers = Array.from({ length: 20 }, () =>
      stack.use(startReader({ db, bus, timing: NEVER }, writer.sessionId, 0)),
    );
    await Promise.all(readers.map((reader) => reader.until(hasSeq(1))));
    const seq = await writer.append([switched('all')]);
    seen.statements = 0;
    bus.announce(writer.sessionId, seq);
    await Promise.all(readers.map((reader) => reader.until(hasSeq(seq))));
    expect(seen.statements).toBe(1);
    for (const { items } of readers) expect(items.filter(hasSeq(seq))).toHaveLength(1);
  });

  test('the stream of a session that is deleted ends', async () => {
    const bus = createUnreliableBus(() => 'now');
    const writer = await createSessionWriter(database.db);
    await using reader = startReader({ db: database.db, bus, timing: POLLING }, writer.sessionId, 0);
    await reader.until(hasSeq(1));
    await database.db.deleteFrom('sessions').where('id', '=', writer.sessionId).execute();
    await reader.ended;
    expect(bus.listenerCount()).toBe(0);
  });
});
