import { type KyselyPlugin, sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { LiveBus } from '../../src/events/live-bus.ts';
import { waitForRun } from '../../src/events/wait-for-run.ts';
import { newId } from '../../src/platform/new-id.ts';
import type { Db } from '../../src/store/db/database.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { untilHolds } from '../support/until-holds.ts';
import { busBackends } from './buses.ts';
import { publish } from './reader.ts';
import { createSessionWriter, TENANT } from './session-writer.ts';
import { createUnreliableBus } from './unreliable-bus.ts';

const LONG_MS = 50_000;

/** The same database, and how many of its queries were answered. */
function countQueries(db: Db): Readonly<{ db: Db; queries: () => number }> {
  let answered = 0;
  const counter: KyselyPlugin = {
    transformQuery: ({ node }) => node,
    async transformResult({ result }) {
      answered += 1;
      return result;
    },
  };
  return { db: db.withPlugin(counter), queries: () => answered };
}

const { signal } = new AbortController();

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database[Symbol.asyncDispose]());

describe.each(busBackends)('waiting for a run over $name', ({ create }) => {
  let bus: LiveBus;
  beforeAll(async () => {
    bus = await create(database).open();
  });
  afterAll(() => bus[Symbol.asyncDispose]());

  test.each(['completed', 'requires_action'] as const)(
    'an announcement ends the wait for a run that is %s',
    async (status) => {
      const writer = await createSessionWriter(database.db);
      const waiting = waitForRun(
        { db: database.db, bus, pollIntervalMs: LONG_MS },
        { tenantId: TENANT, runId: writer.runId, timeoutMs: LONG_MS, signal },
      );
      if (status === 'requires_action') await writer.ask();
      // The wait may not have subscribed yet: announcing goes on until it has ended.
      const seq = await writer.endRun(status);
      const announcing = setInterval(() => bus.announce(writer.sessionId, seq), 10);
      try {
        expect(await waiting).toMatchObject({ id: writer.runId, status });
      } finally {
        clearInterval(announcing);
      }
    },
  );
});

describe('waiting for a run', () => {
  const silent = createUnreliableBus(() => 'lost');

  test('a run of which no call asks for anything by now is told as running, and waited for', async () => {
    const writer = await createSessionWriter(database.db);
    await writer.endRun('requires_action');
    const told = await waitForRun(
      { db: database.db, bus: silent, pollIntervalMs: 5 },
      { tenantId: TENANT, runId: writer.runId, timeoutMs: 20, signal },
    );
    expect(told).toMatchObject({ status: 'running', requiredActions: [] });
  });

  test('a run that ends without an announcement is found by the poll', async () => {
    const writer = await createSessionWriter(database.db);
    const waiting = waitForRun(
      { db: database.db, bus: silent, pollIntervalMs: 5 },
      { tenantId: TENANT, runId: writer.runId, timeoutMs: LONG_MS, signal },
    );
    await untilHolds(() => expect(silent.listenerCount()).toBe(1));
    await writer.endRun('completed');
    expect(await waiting).toMatchObject({ status: 'completed' });
    expect(silent.listenerCount()).toBe(0);
  });

  test('many who wait for one run look at it together: when they begin, when they listen, and when they are told of its end', async () => {
    const waits = 40;
    const bus = createUnreliableBus(() => 'now');
    const writer = await createSessionWriter(database.db);
    const counted = countQueries(database.db);
    const waiting = Array.from({ length: waits }, () =>
      waitForRun(
        { db: counted.db, bus, pollIntervalMs: LONG_MS },
        { tenantId: TENANT, runId: writer.runId, timeoutMs: LONG_MS, signal },
      ),
    );
    await untilHolds(() => expect(bus.listenerCount()).toBe(waits));
    bus.announce(writer.sessionId, await writer.endRun('completed'));
    for (const run of await Promise.all(waiting)) expect(run.status).toBe('completed');
    // Each time one looks alone, and those who come meanwhile share the next look.
    expect(counted.queries()).toBeLessThanOrEqual(3 * 3);
  });

  test('a preview is no reason to look', async () => {
    const bus = createUnreliableBus(() => 'now');
    const writer = await createSessionWriter(database.db);
    const counted = countQueries(database.db);
    const waiting = waitForRun(
      { db: counted.db, bus, pollIntervalMs: LONG_MS },
      { tenantId: TENANT, runId: writer.runId, timeoutMs: LONG_MS, signal },
    );
    await untilHolds(() => expect([bus.listenerCount(), counted.queries()]).toEqual([1, 2]));
    const { message } = await writer.startMessage();
    publish(bus, writer, message, { type: 'text', text: 'a delta' });
    bus.announce(writer.sessionId, await writer.endRun('completed'));
    expect(await waiting).toMatchObject({ status: 'completed' });
    expect(counted.queries()).toBe(3);
  });

  test('a run that has ended before is returned at once, without listening', async () => {
    const writer = await createSessionWriter(database.db);
    await writer.endRun('completed');
    const run = await waitForRun(
      { db: database.db, bus: silent },
      { tenantId: TENANT, runId: writer.runId, timeoutMs: LONG_MS, signal },
    );
    expect(run.status).toBe('completed');
  });

  test('at the timeout the run is returned as it is', async () => {
    const writer = await createSessionWriter(database.db);
    for (const timeoutMs of [0, 30]) {
      const run = await waitForRun(
        { db: database.db, bus: silent },
        { tenantId: TENANT, runId: writer.runId, timeoutMs, signal },
      );
      expect(run.status).toBe('queued');
    }
    await untilHolds(() => expect(silent.listenerCount()).toBe(0));
  });

  test('a read that hangs does not hold up the timeout', async () => {
    const writer = await createSessionWriter(database.db);
    const waiting = waitForRun(
      { db: database.db, bus: silent, pollIntervalMs: 5 },
      { tenantId: TENANT, runId: writer.runId, timeoutMs: 200, signal },
    );
    await untilHolds(() => expect(silent.listenerCount()).toBe(1));
    await database.db.transaction().execute(async (tx) => {
      await sql`lock table runs in access exclusive mode`.execute(tx);
      expect((await waiting).status).toBe('queued');
    });
    await untilHolds(() => expect(silent.listenerCount()).toBe(0));
  });

  test('an abort ends the wait', async () => {
    const writer = await createSessionWriter(database.db);
    const abort = new AbortController();
    const waiting = waitForRun(
      { db: database.db, bus: silent },
      { tenantId: TENANT, runId: writer.runId, timeoutMs: LONG_MS, signal: abort.signal },
    );
    await untilHolds(() => expect(silent.listenerCount()).toBe(1));
    abort.abort();
    expect((await waiting).status).toBe('queued');
    await untilHolds(() => expect(silent.listenerCount()).toBe(0));
  });

  test('a run that does not exist is not found', async () => {
    const request = { tenantId: TENANT, runId: newId(), timeoutMs: LONG_MS, signal };
    await expect(waitForRun({ db: database.db, bus: silent }, request)).rejects.toMatchObject({ code: 'not_found' });
  });
});
