import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { formatId } from '../../src/domain/ids.ts';
import { sessionSnapshotSchema } from '../../src/domain/run/session-snapshot.ts';
import { openEventStream, type StreamDeps } from '../../src/events/subscribe.ts';
import { newId } from '../../src/platform/new-id.ts';
import { lockSession } from '../../src/store/session/sessions.ts';
import { appendEvents } from '../../src/store/transcript/events.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { acceptMessage } from '../support/unlimited.ts';
import { hasSeq, isEvent, publish, seqsOf, snapshotsOf, startReader } from './reader.ts';
import { createSessionWriter, type Delta, TENANT } from './session-writer.ts';
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

describe('joining', () => {
  const bus = createUnreliableBus(() => 'now');
  const deps = (): StreamDeps => ({ db: database.db, bus, timing: NEVER });

  test('the snapshot tells status, run, queue, cursor and usage, in public ids', async () => {
    const writer = await createSessionWriter(database.db);
    await database.db
      .updateTable('sessions')
      .set({ input_tokens: 100, output_tokens: 7 })
      .where('id', '=', writer.sessionId)
      .execute();
    const messageId = newId();
    const accepted = await acceptMessage(database.db, {
      tenantId: TENANT,
      sessionId: writer.sessionId,
      messageId,
      content: [{ type: 'text', text: 'and then?' }],
      runId: newId(),
    });
    await using reader = startReader(deps(), writer.sessionId, null);
    const item = await reader.until(({ kind }) => kind === 'snapshot');
    const data = item.kind === 'snapshot' ? item.data : null;
    expect(sessionSnapshotSchema.parse(data)).toMatchObject({
      sessionId: formatId('session', writer.sessionId),
      status: 'busy',
      activeRunId: formatId('run', writer.runId),
      seq: accepted.eventSeq,
      queue: [
        {
          id: formatId('message', messageId),
          position: 1,
          delivery: 'steer',
          content: [{ type: 'text', text: 'and then?' }],
        },
      ],
      inFlight: null,
      reset: false,
      usage: { inputTokens: 100, outputTokens: 7, totalTokens: 107 },
    });
  });

  test('a message without any text yet is in flight already, and its first delta is not lost', async () => {
    const writer = await createSessionWriter(database.db);
    const { message } = await writer.startMessage();
    await using reader = startReader(deps(), writer.sessionId, null);
    await reader.until(({ kind }) => kind === 'snapshot');
    expect(snapshotsOf(reader.items)[0]?.inFlight).toEqual({
      messageId: message.publicId,
      runId: formatId('run', writer.runId),
      step: 1,
      epoch: message.epoch,
      chunks: [],
    });
    publish(bus, writer, message, text('first'));
    await reader.until(({ kind }) => kind === 'live');
  });

  test('events carry the public id of their run', async () => {
    const writer = await createSessionWriter(database.db);
    await using reader = startReader(deps(), writer.sessionId, 0);
    const item = await reader.until(isEvent('run:queued'));
    const runId = formatId('run', writer.runId);
    expect(item).toMatchObject({ kind: 'event', event: { seq: 1, runId, data: { runId } } });
  });

  test('an event that commits while a reader joins comes exactly once', async () => {
    const writer = await createSessionWriter(database.db);
    const release = Promise.withResolvers<void>();
    const written = Promise.withResolvers<void>();
    const committed = database.db.transaction().execute(async (tx) => {
      await lockSession(tx, TENANT, writer.sessionId);
      const seq = await appendEvents(tx, writer.sessionId, writer.runId, [switched('slow')]);
      written.resolve();
      await release.promise;
      return seq;
    });
    await written.promise;
    await using reader = startReader(deps(), writer.sessionId, 0);
    await reader.until(isEvent('run:queued'));
    expect(snapshotsOf(reader.items)[0]?.seq).toBe(1);
    release.resolve();
    bus.announce(writer.sessionId, await committed);
    await reader.until(isEvent('llm:switched'));
    const next = await writer.append([switched('next')]);
    bus.announce(writer.sessionId, next);
    await reader.until(hasSeq(next));
    expect(seqsOf(reader.items)).toEqual([1, 2, 3]);
  });

  test('a reader resumes right after its cursor', async () => {
    const writer = await createSessionWriter(database.db);
    const last = await writer.append(Array.from({ length: 9 }, (_, index) => switched(`${index}`)));
    await using reader = startReader(deps(), writer.sessionId, 4);
    await reader.until(hasSeq(last));
    expect(seqsOf(reader.items)).toEqual([5, 6, 7, 8, 9, 10]);
    expect(snapshotsOf(reader.items)).toMatchObject([{ seq: last, reset: false }]);
  });

  test('a replay of more than one page is complete', async () => {
    const writer = await createSessionWriter(database.db);
    const last = await writer.append(Array.from({ length: 1_100 }, (_, index) => switched(`${index}`)));
    await using reader = startReader(deps(), writer.sessionId, 0);
    await reader.until(hasSeq(last));
    expect(seqsOf(reader.items)).toEqual(Array.from({ length: last }, (_, index) => index + 1));
  });

  test('a cursor beyond the last event is of another log: a snapshot marked reset, and then what is kept', async () => {
    const writer = await createSessionWriter(database.db);
    await using last = startReader(deps(), writer.sessionId, 1);
    await using beyond = startReader(deps(), writer.sessionId, 2);
    await Promise.all([last, beyond].map((reader) => reader.until(({ kind }) => kind === 'snapshot')));
    const seq = await writer.append([switched('next')]);
    bus.announce(writer.sessionId, seq);
    await Promise.all([last, beyond].map((reader) => reader.until(hasSeq(seq))));
    expect([snapshotsOf(last.items)[0]?.reset, seqsOf(last.items)]).toEqual([false, [2]]);
    expect([snapshotsOf(beyond.items)[0]?.reset, seqsOf(beyond.items)]).toEqual([true, [1, 2]]);
  });

  test('a cursor older than what is kept gives a snapshot marked reset, and then what is kept', async () => {
    const writer = await createSessionWriter(database.db);
    const last = await writer.append(Array.from({ length: 9 }, (_, index) => switched(`${index}`)));
    await forgetEventsBefore(writer.sessionId, 6);
    await using old = startReader(deps(), writer.sessionId, 2);
    await old.until(hasSeq(last));
    expect(snapshotsOf(old.items)).toMatchObject([{ reset: true }]);
    expect(seqsOf(old.items)).toEqual([6, 7, 8, 9, 10]);
    await using young = startReader(deps(), writer.sessionId, 5);
    await young.until(hasSeq(last));
    expect(snapshotsOf(young.items)).toMatchObject([{ reset: false }]);
    expect(seqsOf(young.items)).toEqual([6, 7, 8, 9, 10]);
  });

  test('events that are removed while a reader is behind lead to a second snapshot, not to a hole', async () => {
    const writer = await createSessionWriter(database.db);
    await using reader = startReader(deps(), writer.sessionId, 0);
    await reader.until(hasSeq(1));
    const last = await writer.append(Array.from({ length: 9 }, (_, index) => switched(`${index}`)));
    await forgetEventsBefore(writer.sessionId, 6);
    bus.announce(writer.sessionId, last);
    await reader.until(hasSeq(last));
    expect(snapshotsOf(reader.items)).toMatchObject([{ reset: false }, { reset: true, seq: last }]);
    expect(seqsOf(reader.items)).toEqual([1, 6, 7, 8, 9, 10]);
  });

  test('a session that does not exist, or belongs to another tenant, is not found', async () => {
    const { sessionId } = await createSessionWriter(database.db);
    await using reader = startReader(deps(), newId(), null);
    await expect(reader.ended).rejects.toMatchObject({ code: 'not_found' });
    const signal = new AbortController().signal;
    const foreign = openEventStream(deps(), { tenantId: 'other', sessionId, afterSeq: null, signal });
    await expect(foreign[Symbol.asyncIterator]().next()).rejects.toMatchObject({ code: 'not_found' });
    expect(bus.listenerCount()).toBe(0);
  });
});

async function forgetEventsBefore(sessionId: string, seq: number): Promise<void> {
  await database.db.deleteFrom('events').where('session_id', '=', sessionId).where('seq', '<', seq).execute();
  await database.db.updateTable('sessions').set({ events_first_seq: seq }).where('id', '=', sessionId).execute();
}
