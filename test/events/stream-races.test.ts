import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { LiveBus } from '../../src/events/live-bus.ts';
import { newId } from '../../src/platform/new-id.ts';
import type { Db } from '../../src/store/db/database.ts';
import { lockSession } from '../../src/store/session/sessions.ts';
import { appendEvents } from '../../src/store/transcript/events.ts';
import { untilWaiting } from '../store/race.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { acceptMessage } from '../support/unlimited.ts';
import { type CollectingReader, hasSeq, seqsOf, snapshotsOf, startReader } from './reader.ts';
import { createSessionWriter, type SessionWriter, TENANT } from './session-writer.ts';
import { createUnreliableBus } from './unreliable-bus.ts';

/** No poll and no retry within a test: what arrives came over the bus, or with the join. */
const NEVER = { pollIntervalMs: 600_000, fillRetryMs: 600_000, heartbeatIntervalMs: 600_000 };

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database[Symbol.asyncDispose]());

const THREE = ['a', 'b', 'c'].map((name) => ({ type: 'llm:switched' as const, data: { from: name, to: name } }));

type Setting = Readonly<{
  db: Db;
  bus: LiveBus;
  writer: SessionWriter;
  /** Commits three events and announces them. */
  commit: () => Promise<void>;
}>;

/** Starts a reader and commits three events at some moment of its joining. */
type Gate = (setting: Setting, afterSeq: number | null) => Promise<CollectingReader>;

const start = ({ db, writer }: Setting, bus: LiveBus, afterSeq: number | null) =>
  startReader({ db, bus, timing: NEVER }, writer.sessionId, afterSeq);

/** A bus on which something happens around the subscription. */
const withSubscription = (bus: LiveBus, onSession: LiveBus['onSession']): LiveBus => ({ ...bus, onSession });

/** While the reader waits for a table in the middle of its join, which a transaction has that writes three events. */
const whileItReads =
  (table: 'inbox' | 'events' | 'messages'): Gate =>
  async (setting, afterSeq) => {
    const { db, bus, writer } = setting;
    const { reader, seq } = await db.transaction().execute(async (tx) => {
      await lockSession(tx, TENANT, writer.sessionId);
      await sql`lock table ${sql.table(table)} in access exclusive mode`.execute(tx);
      const joining = start(setting, bus, afterSeq);
      await untilWaiting(db, 1);
      return { reader: joining, seq: await appendEvents(tx, writer.sessionId, writer.runId, THREE) };
    });
    bus.announce(writer.sessionId, seq);
    return reader;
  };

const GATES: Readonly<Record<string, Gate>> = {
  'before it has subscribed': async (setting, afterSeq) =>
    start(
      setting,
      withSubscription(setting.bus, async (...args) => {
        await setting.commit();
        return setting.bus.onSession(...args);
      }),
      afterSeq,
    ),
  'between subscription and snapshot': async (setting, afterSeq) =>
    start(
      setting,
      withSubscription(setting.bus, async (...args) => {
        const subscription = await setting.bus.onSession(...args);
        await setting.commit();
        return subscription;
      }),
      afterSeq,
    ),
  'in the middle of its snapshot': whileItReads('inbox'),
  'when its snapshot looks for the open message': whileItReads('messages'),
  'in the middle of its replay': whileItReads('events'),
  'after its snapshot, written before it': async (setting, afterSeq) => {
    const { db, bus, writer } = setting;
    const { reader, seq } = await db.transaction().execute(async (tx) => {
      await lockSession(tx, TENANT, writer.sessionId);
      const last = await appendEvents(tx, writer.sessionId, writer.runId, THREE);
      const joining = start(setting, bus, afterSeq);
      await joining.until(({ kind }) => kind === 'snapshot');
      return { reader: joining, seq: last };
    });
    bus.announce(writer.sessionId, seq);
    return reader;
  },
};

describe.each(Object.entries(GATES))('a commit %s', (_, join) => {
  test.each([
    ['from the beginning', 0],
    ['from now on', null],
  ] as const)(
    'is missing or doubled for a reader %s, if join and log are not of one moment',
    async (_from, afterSeq) => {
      const { db } = database;
      const bus = createUnreliableBus(() => 'now');
      const writer = await createSessionWriter(db);
      const commit = async () => bus.announce(writer.sessionId, await writer.append(THREE));
      await using reader = await join({ db, bus, writer, commit }, afterSeq);
      await reader.until(({ kind }) => kind === 'snapshot');
      const known = afterSeq ?? snapshotsOf(reader.items)[0]?.seq ?? 0;
      if (known < 4) await reader.until(hasSeq(4));
      const next = await writer.append(THREE.slice(0, 1));
      bus.announce(writer.sessionId, next);
      await reader.until(hasSeq(next));
      expect(next).toBe(5);
      expect(seqsOf(reader.items)).toEqual(Array.from({ length: next - known }, (_each, index) => known + index + 1));
    },
  );
});

test('a message that commits in the middle of a snapshot would be in its queue and in the replay', async () => {
  const { db } = database;
  const bus = createUnreliableBus(() => 'now');
  const writer = await createSessionWriter(db);
  const joined = await db.transaction().execute(async (tx) => {
    await sql`lock table inbox in access exclusive mode`.execute(tx);
    const joining = startReader({ db, bus, timing: NEVER }, writer.sessionId, null);
    await untilWaiting(db, 1);
    const { eventSeq } = await acceptMessage(tx, {
      tenantId: TENANT,
      sessionId: writer.sessionId,
      messageId: newId(),
      content: [{ type: 'text', text: 'Meanwhile' }],
      runId: newId(),
    });
    return { reader: joining, eventSeq };
  });
  await using reader = joined.reader;
  bus.announce(writer.sessionId, joined.eventSeq);
  await reader.until(hasSeq(joined.eventSeq));
  expect(snapshotsOf(reader.items)).toMatchObject([{ seq: joined.eventSeq - 1, queue: [] }]);
});
