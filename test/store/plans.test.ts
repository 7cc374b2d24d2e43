import { randomUUID } from 'node:crypto';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JobPayload } from '../../src/domain/run/job.ts';
import { planNext } from '../../src/domain/run/next-step.ts';
import { NO_USAGE } from '../../src/domain/usage.ts';
import { indexWords } from '../../src/store/around/message-words.ts';
import {
  FIRST_PLACE,
  findExpiredSessions,
  findOldSessions,
  findTenantsWith,
} from '../../src/store/around/retention.ts';
import { requestCancel } from '../../src/store/changes/cancels.ts';
import { revertSession, unrevertSession } from '../../src/store/changes/revert.ts';
import { cancelChildless, cancelWaiting } from '../../src/store/changes/tree-cancels.ts';
import { type Db, inTransaction } from '../../src/store/db/database.ts';
import { readActivity } from '../../src/store/lists/activity.ts';
import { listChildren } from '../../src/store/lists/child-lists.ts';
import { readFailedRuns } from '../../src/store/lists/failed-runs.ts';
import { readFleet } from '../../src/store/lists/fleet.ts';
import { readLiveSnapshot } from '../../src/store/lists/live-snapshot.ts';
import { listOperatorRuns } from '../../src/store/lists/operator-runs.ts';
import { readOverviews } from '../../src/store/lists/session-overviews.ts';
import { searchSessions } from '../../src/store/lists/session-search.ts';
import { countActiveRuns } from '../../src/store/lists/state-counts.ts';
import { readStepLog } from '../../src/store/lists/step-log.ts';
import { readUsage } from '../../src/store/lists/usage.ts';
import { listWaitingCalls } from '../../src/store/lists/waiting-calls.ts';
import { noteAsks, stopChildren, takeDueChildren } from '../../src/store/session/children.ts';
import { readStoredBytes } from '../../src/store/session/quota.ts';
import { findRun, listRuns } from '../../src/store/session/runs.ts';
import { listSessions } from '../../src/store/session/sessions.ts';
import { listWaiting } from '../../src/store/session/waiting-messages.ts';
import { readChunks } from '../../src/store/transcript/chunks.ts';
import { readEvents } from '../../src/store/transcript/events.ts';
import { listMessages, readInterruptedStep } from '../../src/store/transcript/messages.ts';
import { findOutputMatches } from '../../src/store/transcript/output-matches.ts';
import { readStepRequest } from '../../src/store/transcript/step-request.ts';
import {
  type ClaimedRun,
  claimRun,
  type Fence,
  handBackRun,
  renewLeases,
  restartStep,
} from '../../src/store/work/claims.ts';
import { findDueWork } from '../../src/store/work/due-work.ts';
import {
  findExpiredLeases,
  findRunsOfWorker,
  findUnclaimed,
  lockExpiredLeases,
  lockRunsOfDeadWorker,
} from '../../src/store/work/lost-work.ts';
import { pauseLeftMs } from '../../src/store/work/provider-pauses.ts';
import { finishStep, writeResponse } from '../../src/store/work/step-writes.ts';
import { forgetDeadWorker, listWorkers } from '../../src/store/work/workers.ts';
import { askStep, claimJob } from '../http/play-worker.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { acceptMessage } from '../support/unlimited.ts';
import { type Access, openWatchedDatabase } from './plans-access.ts';
import {
  CHUNKS_PER_MESSAGE,
  DELAYED,
  DUE,
  DUE_CHILDREN,
  EXPIRED,
  fillDatabase,
  LEASED,
  leftoverOf,
  OLD_SESSION,
  runId,
  SESSION_COUNT,
  STORED_SHARES,
  sessionId,
  WAITING,
  WORKERS,
} from './plans-data.ts';
import { appendOne, moveOne } from './write-one.ts';

const stack = new AsyncDisposableStack();
let watched: ReturnType<typeof openWatchedDatabase>;

beforeAll(async () => {
  const database = stack.use(await createTestDatabase({ isNew: true }));
  await fillDatabase(database.db);
  watched = stack.use(openWatchedDatabase(database.connectionString));
}, 180_000);

afterAll(() => stack.disposeAsync());

const tenantId = 'default';
const limit = 20;
const sizeOf = (range: Readonly<{ from: number; upto: number }>): number => range.upto - range.from + 1;

/** Expects no scan of a whole table, the use of these indexes, and at most this many entries read of all indexes. */
function expectAccess(access: Access, uses: readonly string[], entriesAtMost: number): void {
  expect(access.scannedTables).toEqual([]);
  expect(Object.keys(access.indexes)).toEqual(expect.arrayContaining([...uses]));
  const entries = Object.values(access.indexes).reduce((sum, count) => sum + count, 0);
  expect(entries, JSON.stringify(access.indexes)).toBeLessThanOrEqual(entriesAtMost);
}

describe('the watch over tables and indexes', () => {
  it('sees a scan of a whole table', async () => {
    const { access } = await watched.watch((db) =>
      db.selectFrom('runs').select('id').where('error', 'is not', null).execute(),
    );
    expect(access.scannedTables).toEqual(['runs']);
  });
});

describe('a page of a list reads only its own entries of an index', () => {
  const after = { createdAt: new Date(Date.now() - 3_600_000).toISOString(), id: sessionId(SESSION_COUNT) };

  it.each<[string, (db: Db) => Promise<readonly unknown[]>, string]>([
    ['the newest sessions', (db: Db) => listSessions(db, { tenantId, limit }), 'sessions_listed'],
    ['sessions after a cursor', (db: Db) => listSessions(db, { tenantId, limit, after }), 'sessions_listed'],
    [
      'events after a number',
      (db: Db) => readEvents(db, tenantId, sessionId(OLD_SESSION.n), { afterSeq: 9_000, limit }),
      'events_pkey',
    ],
    ['waiting messages', (db: Db) => listWaiting(db, tenantId, sessionId(DUE.from)), 'inbox_waiting'],
  ])('%s', async (_name, read, index) => {
    const { access, result } = await watched.watch(read);
    expect(result.length).toBeGreaterThan(0);
    expectAccess(access, [index], limit);
  });

  it.each<[string, (db: Db) => Promise<readonly unknown[]>, string]>([
    ['the newest runs', (db: Db) => listRuns(db, { tenantId, limit }), 'runs_listed'],
    ['runs after a cursor', (db: Db) => listRuns(db, { tenantId, limit, after }), 'runs_listed'],
    [
      'runs of a session',
      (db: Db) => listRuns(db, { tenantId, limit, sessionId: sessionId(OLD_SESSION.n) }),
      'runs_of_session',
    ],
    [
      'runs of a session after a cursor',
      (db: Db) => listRuns(db, { tenantId, limit, sessionId: sessionId(OLD_SESSION.n), after }),
      'runs_of_session',
    ],
  ])('%s, each with the name of its session and what began it', async (_name, read, index) => {
    const { access, result } = await watched.watch(read);
    expect(result.length).toBeGreaterThan(0);
    // Its session and its first message; of a run without one, the run that took the message, too.
    expectAccess(access, [index], 4 * limit);
  });

  it('messages after a number, with their parts', async () => {
    const { access, result } = await watched.watch((db) =>
      listMessages(db, tenantId, sessionId(OLD_SESSION.n), { afterSeq: 2_500, limit }),
    );
    expect(result).toHaveLength(limit);
    // Each message has two parts, which are read twice: for their size and for their content.
    expectAccess(access, ['messages_pkey', 'parts_pkey'], 5 * limit);
  });

  it('sessions with given metadata', async () => {
    const metadata = { customer: 'c7', tier: 'paid' };
    const { access, result } = await watched.watch((db) => listSessions(db, { tenantId, limit, metadata, after }));
    expect(result.length).toBeGreaterThan(0);
    expectAccess(access, ['sessions_by_metadata'], SESSION_COUNT / 2_000);
  });
});

describe('the children of a session', () => {
  it('are found by their parent', async () => {
    const parentId = sessionId(OLD_SESSION.n);
    await sql`update sessions set parent_session_id = ${parentId} where id in (
      select id from sessions where tenant_id = ${tenantId} and id <> ${parentId} order by id limit ${limit})`.execute(
      watched.db,
    );
    await sql`analyze sessions`.execute(watched.db);
    const { access, result } = await watched.watch((db) => listSessions(db, { tenantId, limit, parentId }));
    expect(result).toHaveLength(limit);
    expectAccess(access, ['sessions_of_parent'], limit);
  });
});

describe('the search for sessions', () => {
  it('looks up rare words in their index', async () => {
    const { access, result } = await watched.watch((db) => searchSessions(db, { tenantId, limit, words: 'c1234' }));
    expect(result.rows.length).toBeGreaterThan(0);
    expectAccess(access, ['session_words_found', 'sessions_pkey'], 4 * limit);
  });

  it('looks through the newest sessions for words that many have', async () => {
    const { access, result } = await watched.watch((db) => searchSessions(db, { tenantId, limit, words: 'paid' }));
    expect(result.rows).toHaveLength(limit);
    // Matches are counted before the walk begins, up to a limit.
    expectAccess(access, ['session_words_listed', 'sessions_pkey'], SESSION_COUNT);
  });

  describe('in messages', () => {
    const search = (words: string) =>
      watched.watch((db) => searchSessions(db, { tenantId, limit, words, inMessages: true }));

    it('looks up rare words in their index', async () => {
      const { access, result } = await search('n12345');
      expect([result.rows.length, result.stoppedAt]).toEqual([1, null]);
      expect([...result.hits.keys()]).toEqual([sessionId(12_345)]);
      expectAccess(access, ['message_words_listed', 'message_words_found', 'messages_pkey', 'parts_pkey'], 2_200);
    });

    it('finds words that many have in the newest sessions, without their index', async () => {
      const { access, result } = await search('even');
      expect([result.rows.length, result.stoppedAt]).toEqual([limit, null]);
      expectAccess(access, ['message_words_listed', 'messages_pkey', 'parts_pkey'], 4_500);
      expect(Object.keys(access.indexes)).not.toContain('message_words_found');
    });

    it('finds words that many old sessions have in windows of time, by a bounded number of reads', async () => {
      const { access, result } = await search('early');
      expect([result.rows.length, result.stoppedAt]).toEqual([limit, null]);
      expect(result.rows[0]?.id).toBe(sessionId(3_999));
      // Its list is read once for each window that holds too many.
      expectAccess(access, ['message_words_listed', 'message_words_found', 'messages_pkey'], 100_000);
    });
  });

  it('finds the sessions whose words are due by their index', async () => {
    await sql`update sessions set words_due_at = created_at where id in (
      select id from sessions where tenant_id = 'other' order by id desc limit 20)`.execute(watched.db);
    await sql`update session_words set indexed_seq = 2`.execute(watched.db);
    await sql`vacuum analyze sessions, session_words`.execute(watched.db);
    const { access, result } = await watched.watch((db) => indexWords(db));
    expect(result).toBe(0);
    expectAccess(access, ['sessions_words_due', 'sessions_pkey', 'session_words_pkey', 'messages_pkey'], 20 * 8);
  });

  it('looks for failed runs among the newest of them', async () => {
    const { access, result } = await watched.watch((db) => searchSessions(db, { tenantId, limit, failed: true }));
    expect(result.rows).toHaveLength(0);
    expectAccess(access, ['runs_by_status'], limit);
  });

  it('stops at a bounded number of sessions', async () => {
    const { access, result } = await watched.watch((db) => searchSessions(db, { tenantId, limit, minCostUsd: 1 }));
    expect(result).toMatchObject({ rows: [], stoppedAt: { id: expect.any(String) } });
    expectAccess(access, ['sessions_listed', 'sessions_pkey'], 10_000);
    const rest = { tenantId, limit, minCostUsd: 1, since: new Date(Date.now() - 3_600_000).toISOString() };
    expect(await searchSessions(watched.db, rest)).toMatchObject({ rows: [], stoppedAt: null });
  });

  it('reads what a list says of each session by the session', async () => {
    const { access, result } = await watched.watch((db) =>
      readOverviews(
        db,
        [OLD_SESSION.n, WAITING.from, DUE.from].map((n) => ({ id: sessionId(n), context_state: {} })),
      ),
    );
    expect(result.get(sessionId(OLD_SESSION.n))?.lastWords?.text).toMatch(/words/);
    expectAccess(access, ['messages_pkey', 'parts_pkey', 'runs_of_session', 'inbox_waiting'], 80);
  });
});

describe('the steps of a run', () => {
  it('are read by the run, with the events of their page', async () => {
    const run = runId(SESSION_COUNT + OLD_SESSION.runs / 2);
    const { access, result } = await watched.watch((db) =>
      readStepLog(db, { tenantId, runId: run, after: 1, limit: 2 }),
    );
    expect(result).toMatchObject({ next: 3, input: { messages: [{ step: 2 }] } });
    expectAccess(access, ['messages_of_step', 'parts_pkey', 'compactions_of_run', 'events_of_maintenance'], 60);
    expect(result.input.events.length).toBeGreaterThan(0);
  });

  it('have a request that is read from its view alone', async () => {
    const run = runId(SESSION_COUNT + OLD_SESSION.runs);
    const { access, result } = await watched.watch((db) =>
      readStepRequest(db, { tenantId, runId: run, step: 10, attempt: null }),
    );
    expect(result.view).toHaveLength(OLD_SESSION.view - 1);
    // The parts are read once for the view, and once to find those that it does not show whole.
    expectAccess(
      access,
      ['messages_of_step', 'messages_pkey', 'parts_pkey', 'session_agents_pkey'],
      8 * OLD_SESSION.view,
    );
  });
});

describe('a revert and its undo', () => {
  it('touch the messages that they take out, and those alone', async () => {
    const place = { tenantId, sessionId: sessionId(OLD_SESSION.n) };
    const last = OLD_SESSION.messages;
    const kept = 10;
    const { id: messageId } = await watched.db
      .selectFrom('messages')
      .select('id')
      .where('session_id', '=', place.sessionId)
      .where('seq', '=', last - kept)
      .executeTakeFirstOrThrow();
    const taken = await watched.watch((db) => inTransaction(db, (tx) => revertSession(tx, { ...place, messageId })));
    expect(taken.result).toMatchObject({ messages: kept });
    const indexes = ['messages_pkey', 'session_reverts_pkey'];
    // The revert looks for the newest compaction with a summary: none of this session's rounds has one.
    expectAccess(taken.access, [...indexes, 'compactions_session_id_round_key'], OLD_SESSION.runs + 12 * kept);
    const undone = await watched.watch((db) => inTransaction(db, (tx) => unrevertSession(tx, place)));
    expect(undone.result).toMatchObject({ messages: kept });
    expectAccess(undone.access, indexes, 12 * kept);
  });
});

describe('what a console lists', () => {
  const since = new Date(Date.now() - 86_400_000);

  it('of calls that wait are those alone', async () => {
    const { access, result } = await watched.watch((db) => listWaitingCalls(db, { tenantId, limit }));
    expect(result).toHaveLength(limit);
    expectAccess(access, ['parts_waiting', 'messages_id_session_id_key', 'runs_pkey', 'sessions_pkey'], 6 * limit);
  });

  it.each([tenantId, null])('of failures is among the failed runs of the tenants: %s', async (of) => {
    const { access } = await watched.watch((db) => readFailedRuns(db, { tenantId: of, since }));
    expectAccess(access, ['runs_by_status'], limit);
  });

  it.each([tenantId, null])('of usage is in its window: %s', async (of) => {
    const until = new Date(since.getTime() + 3_600_000);
    const { access, result } = await watched.watch((db) => readUsage(db, { tenantId: of, by: [], since, until }));
    expect(result.rows).toHaveLength(1);
    expectAccess(access, ['runs_listed'], 100);
  });

  it.each([tenantId, null])('of runs for an operator is a page: %s', async (of) => {
    const { access, result } = await watched.watch((db) => listOperatorRuns(db, { tenantId: of, limit }));
    expect(result).toHaveLength(limit);
    expectAccess(access, ['runs_listed', 'sessions_pkey'], 4 * limit);
  });

  it('of activity is what works, and a page of the newest', async () => {
    const { access, result } = await watched.watch((db) => readActivity(db, tenantId));
    expect(result.active.size).toBeGreaterThan(limit);
    expectAccess(access, ['sessions_by_status', 'sessions_listed'], result.active.size + result.newest.size);
  });

  it('of the work of all workers is what is claimed or due', async () => {
    const { access, result } = await watched.watch(readFleet);
    expect(result.due).toMatchObject([{ kind: 'step' }, { kind: 'delivery' }]);
    expect(access.scannedTables).toEqual([]);
    expect(Object.keys(access.indexes).toSorted()).toEqual([
      'runs_leased',
      'runs_unclaimed',
      'webhook_deliveries_due',
      'workers_pkey',
    ]);
  });
});

describe('what a tenant stores', () => {
  it('is read from the rows of this tenant alone, of which there are as many as have counted at once', async () => {
    const { access, result } = await watched.watch((db) => readStoredBytes(db, tenantId));
    expect(result).toBeGreaterThan(0);
    // The rows that fill the database were counted as well.
    expectAccess(access, ['stored_bytes_pkey'], STORED_SHARES + 10);
  });
});

describe('the search for lost work never looks at runs that have ended', () => {
  it('finds expired leases among the leased runs', async () => {
    const { access, result } = await watched.watch((db) => findExpiredLeases(db, 100));
    expect(result).toHaveLength(sizeOf(EXPIRED));
    expectAccess(access, ['runs_leased'], sizeOf(LEASED) + sizeOf(EXPIRED));
  });

  it('finds due work that nobody claimed among the pending runs, the longest waiting first', async () => {
    const all = await watched.watch((db) => findUnclaimed(db, 1_000, 1_000));
    expect(all.result).toHaveLength(sizeOf(DUE));
    expectAccess(all.access, ['runs_unclaimed'], sizeOf(DUE) + sizeOf(DELAYED));
    const some = await watched.watch((db) => findUnclaimed(db, 1_000, limit));
    expectAccess(some.access, ['runs_unclaimed'], 2 * limit);
  });

  it('finds due work for extra slots without a look at that of tenants that have their share', async () => {
    const asked = { without: [], after: '', perTenant: 5, waitedMs: 0 };
    const some = await watched.watch((db) => findDueWork(db, 'step', asked));
    expect(some.result.due.length).toBeGreaterThan(5);
    expectAccess(some.access, ['runs_unclaimed'], 2 * limit);
    const none = await watched.watch((db) => findDueWork(db, 'step', { ...asked, without: [tenantId, 'other'] }));
    expect(none.result.due).toEqual([]);
    expectAccess(none.access, ['runs_unclaimed'], limit / 2);
  });

  it('locks an expired lease', async () => {
    const runs = [EXPIRED.from, EXPIRED.from + 1].map((n) => ({
      id: runId(n),
      sessionId: sessionId(n),
      resumeCount: 0,
    }));
    const { access, result } = await watched.watch((db) =>
      db.transaction().execute((tx) => lockExpiredLeases(tx, runs)),
    );
    expect(result).toEqual(runs);
    expectAccess(access, ['sessions_pkey', 'runs_pkey'], 2 * 2 + 2 + sizeOf(LEASED) + sizeOf(EXPIRED));
  });

  describe('of workers', () => {
    /** One of the workers that have the leased and the expired runs. */
    const DEAD = 'worker-0';
    const sight = async (db: Db) => {
      const worker = (await listWorkers(db)).find(({ id }) => id === DEAD);
      if (worker === undefined) throw new Error('not registered');
      return worker;
    };

    beforeAll(async () => {
      const kinds = ['step' as const];
      const workers = Array.from({ length: WORKERS }, (_, n) => ({ id: `worker-${n}`, kinds, lock_key: n }));
      await watched.db.insertInto('workers').values(workers).execute();
    });
    afterAll(() => watched.db.deleteFrom('workers').execute());

    it('sights them without a look at any run', async () => {
      const { access, result } = await watched.watch(listWorkers);
      expect(result.filter(({ lockFree }) => lockFree)).toHaveLength(WORKERS);
      expect(access).toEqual({ scannedTables: ['workers'], indexes: {} });
    });

    it('finds what a dead one had in hand among the leased runs, and locks it', async () => {
      const found = await watched.watch((db) => findRunsOfWorker(db, DEAD, 100));
      expect(found.result.length).toBeGreaterThan(limit / 2);
      const leased = sizeOf(LEASED) + sizeOf(EXPIRED);
      expectAccess(found.access, ['runs_leased'], leased);
      const worker = await sight(watched.db);
      const locked = await watched.watch((db) =>
        db.transaction().execute((tx) => lockRunsOfDeadWorker(tx, found.result, worker)),
      );
      expect(locked.result).toHaveLength(found.result.length);
      expect(locked.access.scannedTables.filter((table) => table !== 'workers')).toEqual([]);
      const forgotten = await watched.watch((db) => forgetDeadWorker(db, worker));
      expect(forgotten.access.scannedTables.filter((table) => !table.endsWith('workers'))).toEqual([]);
      expect(await sight(watched.db)).toEqual(worker);
    });
  });

  it('renews leases by the keys of their runs', async () => {
    const numbers = Array.from({ length: limit }, (_, index) => LEASED.from + index);
    const claims = await watched.db
      .selectFrom('runs')
      .select(['id as runId', 'claim_id as claimId'])
      .where('id', 'in', numbers.map(runId))
      .$narrowType<{ claimId: string }>()
      .execute();
    const { access, result } = await watched.watch((db) => renewLeases(db, claims, 30_000));
    expect(result).toHaveLength(limit);
    // Each run is read once to lock it in order and once to write it. Since PostgreSQL 18 the planner reads both ends
    // of the index first.
    expectAccess(access, ['runs_pkey'], 2 * limit + 2);
  });
});

describe('the counts for metrics', () => {
  it('look at the runs that have not ended, and at no others', async () => {
    const { access, result } = await watched.watch(countActiveRuns);
    const active = WAITING.upto - LEASED.from + 1;
    expect(result.reduce((sum, { count }) => sum + count, 0)).toBe(active);
    // Rows that other tests have changed are in the index twice until the next vacuum.
    expectAccess(access, ['runs_one_active_per_session'], 2 * active);
  });
});

describe('what is read of a message in flight', () => {
  const leftover = (n: number) => ({ sessionId: sessionId(n), messageId: leftoverOf(n) });

  it('its text so far comes with one look at the session', async () => {
    const { access, result } = await watched.watch((db) => readLiveSnapshot(db, tenantId, sessionId(LEASED.from)));
    expect(result.inFlight?.chunks).toHaveLength(CHUNKS_PER_MESSAGE);
    expectAccess(access, ['messages_of_step', 'part_chunks_pkey', 'inbox_waiting'], CHUNKS_PER_MESSAGE + 5);
  });

  it('its text from an offset on reads only what follows', async () => {
    const offset = 10 * (CHUNKS_PER_MESSAGE - 5);
    const { access, result } = await watched.watch((db) => readChunks(db, leftover(LEASED.from), offset));
    expect(result).toHaveLength(5);
    expectAccess(access, ['part_chunks_pkey'], 6);
  });

  it('is settled by its key', async () => {
    const { access } = await watched.watch((db) => readInterruptedStep(db, leftover(EXPIRED.from)));
    expectAccess(access, ['messages_id_session_id_key', 'parts_pkey'], 2);
  });
});

it('a look for pauses reads a bounded number of those that are on', async () => {
  const model = { endpoint: 'https://1.example', credential: 'key', modelId: 'crowded' };
  const { access, result } = await watched.watch((db) => pauseLeftMs(db, model, tenantId));
  expect(result).toBeGreaterThan(0);
  expectAccess(access, ['provider_pauses_of_model'], 200);
});

describe('a look for old and expired sessions', () => {
  it('reads those that expire at all', async () => {
    const tenants = await watched.watch((db) => findTenantsWith(db, 'expiringSessions'));
    expectAccess(tenants.access, ['sessions_expiring'], 5);
    const { access } = await watched.watch((db) => findExpiredSessions(db, tenantId, FIRST_PLACE, limit));
    expectAccess(access, ['sessions_expiring'], 5);
  });

  it('walks from tenant to tenant, and reads none of those that are too young', async () => {
    const tenants = await watched.watch((db) => findTenantsWith(db, 'sessions'));
    expect(tenants.result).toContain(tenantId);
    expectAccess(tenants.access, ['sessions_listed'], 5 * tenants.result.length);
    const before = new Date(0);
    const { access } = await watched.watch((db) =>
      findOldSessions(db, tenantId, { before, after: FIRST_PLACE, limit }),
    );
    expectAccess(access, [], 5);
  });
});

describe('a cancel', () => {
  it('of a run that a worker has is by its key', async () => {
    const { access, result } = await watched.watch((db) => requestCancel(db, tenantId, runId(LEASED.from)));
    expect(result).toMatchObject({ status: 'cancelling', notify: true });
    expectAccess(access, ['runs_pkey', 'sessions_pkey'], 16);
  });

  it('looks for leftovers of the step by the run', async () => {
    const { access, result } = await watched.watch((db) => requestCancel(db, tenantId, runId(DUE.from)));
    expect(result.status).toBe('cancelling');
    expectAccess(access, ['runs_pkey', 'messages_of_step'], 21);
  });
});

describe('a look at children', () => {
  it('takes those that are due, and reads no other', async () => {
    const { access, result } = await watched.watch((db) => takeDueChildren(db, { limit, perTenant: limit, full: [] }));
    expect(result).toHaveLength(DUE_CHILDREN);
    expectAccess(access, ['children_due', 'children_pkey'], 40);
  });

  it('finds those that a run has to stop by the run', async () => {
    const { access } = await watched.watch((db) => db.transaction().execute((tx) => stopChildren(tx, runId(1))));
    expectAccess(access, ['children_of_call_run'], 10);
  });

  it('cancels those that work by the keys of their runs', async () => {
    const runIds = [LEASED.from + 1, LEASED.from + 2].map(runId);
    const { access, result } = await watched.watch((db) => cancelChildless(db, runIds));
    expect(result.map((cancelled) => cancelled.runId)).toEqual(runIds);
    expectAccess(access, ['runs_pkey', 'sessions_pkey'], 32);
  });

  it('ends those that wait by the keys of their runs', async () => {
    const runIds = [WAITING.from + 1, WAITING.from + 2].map(runId);
    const { access, result } = await watched.watch((db) => cancelWaiting(db, runIds));
    expect(result.map((ended) => ended.runId)).toEqual(runIds);
    expectAccess(access, ['runs_pkey', 'sessions_pkey', 'messages_of_step'], 130);
  });

  it('reads those of a run, and of the run itself the call that began it', async () => {
    const parentRunId = runId(1);
    const read = (db: Db) => listChildren(db, { parentSessionId: sessionId(1), parentRunId, limit });
    expectAccess((await watched.watch(read)).access, ['children_of_call_run'], 10);
    const { access } = await watched.watch((db) => findRun(db, tenantId, parentRunId));
    expectAccess(access, ['children_by_run'], 10);
  });

  it('finds a child by its run', async () => {
    const { access } = await watched.watch((db) => db.transaction().execute((tx) => noteAsks(tx, runId(1), 1)));
    expectAccess(access, ['children_by_run'], 10);
  });
});

/** Entries that a step may read besides its view: locks, counters, checks of foreign keys. */
const STEP_OVERHEAD = 150;
/** Each message of the view with its two parts, and the messages that wait. */
const VIEW_ENTRIES = 3 * (OLD_SESSION.view + 10);

describe.each(['force_custom_plan', 'force_generic_plan'] as const)(
  'a step of a session with 10000 messages, %s',
  (mode) => {
    let job: JobPayload;
    let fence: Fence;
    let message = randomUUID();
    const accept = (db: Db) =>
      acceptMessage(db, {
        tenantId,
        sessionId: sessionId(OLD_SESSION.n),
        messageId: randomUUID(),
        runId: randomUUID(),
        content: [{ type: 'text', text: 'Go on.' }],
      });
    const claim = (db: Db) => {
      message = randomUUID();
      return claimRun(db, {
        job,
        claimId: fence.claimId,
        workerId: 'worker',
        leaseDurationMs: 30_000,
        messageId: message,
      });
    };

    beforeAll(() => watched.planWith(mode));
    afterAll(() => watched.planWith('auto'));

    it('accepts a message', async () => {
      const { access, result } = await watched.watch(accept);
      if (result.job === null) throw new Error('the session is busy');
      job = result.job;
      expectAccess(access, ['sessions_pkey', 'runs_pkey', 'inbox_tenant_id_id_key'], STEP_OVERHEAD);
    });

    it('claims its run, drains the inbox and reads nothing older than the view', async () => {
      fence = { runId: job.runId, epoch: 0, claimId: randomUUID() };
      const { access, result } = await watched.watch(claim);
      expect(result.outcome).toBe('claimed');
      const claimed = result as ClaimedRun;
      expect(claimed.view?.length).toBeGreaterThan(OLD_SESSION.view);
      fence = { ...fence, epoch: claimed.epoch };
      const uses = ['messages_of_step', 'inbox_waiting', 'messages_pkey', 'parts_pkey'];
      expectAccess(access, uses, VIEW_ENTRIES + STEP_OVERHEAD);
    });

    it('accepts another message meanwhile', async () => {
      const { access, result } = await watched.watch(accept);
      expect(result).toMatchObject({ queued: true, position: 1 });
      expectAccess(access, ['inbox_waiting'], STEP_OVERHEAD);
    });

    it('appends streamed text', async () => {
      const chunks = [{ charOffset: 0, partIndex: 0, type: 'text' as const, text: 'Once' }];
      const { access, result } = await watched.watch((db) => appendOne(db, fence, message, chunks));
      expect(result).toBe(true);
      expectAccess(access, ['runs_pkey', 'messages_id_session_id_key'], 5);
    });

    it('writes the response and moves its call', async () => {
      const call = { type: 'tool', toolCallId: 'c1', toolName: 'grep', input: {}, state: 'pending' } as const;
      const response = { messageId: message, parts: [call], finishReason: 'tool-calls' } as const;
      const written = await watched.watch((db) => writeResponse(db, fence, response, []));
      expect(written.result).not.toBeNull();
      expectAccess(written.access, ['parts_pkey', 'part_chunks_pkey', 'messages_id_session_id_key'], STEP_OVERHEAD);
      const moved = await watched.watch((db) =>
        moveOne(db, fence, { messageId: message, index: 0, from: ['pending'], to: 'running', events: [] }),
      );
      expect(moved.result).toBe('moved');
      expectAccess(moved.access, ['parts_pkey'], STEP_OVERHEAD);
    });

    it('finishes the step and goes on with the next one for the message that waits', async () => {
      const { access, result } = await watched.watch((db) => finish(db, fence, 1));
      expect(result?.branch).toBe('ifMessagesWait');
      job = result?.jobs[0] ?? job;
      expectAccess(access, ['inbox_waiting', 'runs_pkey', 'sessions_pkey'], STEP_OVERHEAD);
    });

    it('hands the next step back, and settles and restarts it under another claim', async () => {
      fence = { ...fence, claimId: randomUUID() };
      fence = { ...fence, epoch: ((await claim(watched.db)) as ClaimedRun).epoch };
      const back = await watched.watch((db) => handBackRun(db, fence));
      expectAccess(back.access, ['runs_pkey', 'sessions_pkey'], STEP_OVERHEAD);
      if (back.result === null) throw new Error('fenced');
      job = back.result;
      fence = { ...fence, claimId: randomUUID() };
      const again = await watched.watch(claim);
      const claimed = again.result as ClaimedRun;
      expect(claimed.interruptedMessageId).not.toBeNull();
      expectAccess(again.access, ['messages_of_step'], STEP_OVERHEAD);
      fence = { ...fence, epoch: claimed.epoch };
      const broken = { messageId: claimed.interruptedMessageId ?? '', events: [] };
      const restarted = await watched.watch((db) => restartStep(db, fence, message, broken));
      expect(restarted.result).not.toBeNull();
      expectAccess(restarted.access, ['messages_pkey', 'parts_pkey'], VIEW_ENTRIES + STEP_OVERHEAD);
    });

    it('ends the run', async () => {
      const { access, result } = await watched.watch((db) => finish(db, fence, 2));
      expect(result?.branch).toBe('otherwise');
      expectAccess(access, ['inbox_waiting', 'runs_pkey', 'sessions_pkey'], STEP_OVERHEAD);
    });

    it('asks for an answer, marks parts and compares outputs by the keys of the calls', async () => {
      const claimed = await claimJob(watched.db, (await accept(watched.db)).job ?? undefined);
      const { messageId } = claimed;
      const asked = await watched.watch((db) => askStep(db, claimed, [{ kind: 'output', toolName: 'look' }], 60_000));
      expectAccess(asked.access, ['parts_pkey'], STEP_OVERHEAD);
      const place = { tenantId, sessionId: sessionId(OLD_SESSION.n) };
      const given = { kind: 'output', output: { type: 'text', value: 'seen' } } as const;
      const taken = await watched.watch((db) =>
        inTransaction(db, (tx) => findOutputMatches(tx, place, [{ messageId, index: 0, given }])),
      );
      expectAccess(taken.access, ['messages_id_session_id_key', 'parts_pkey'], 10);
      const marks = JSON.stringify([{ messageId, index: 0, pruned: true }]);
      const marked = await watched.watch((db) =>
        sql`select baton_mark_parts(${place.sessionId}, ${marks}::jsonb)`.execute(db),
      );
      expectAccess(marked.access, ['parts_pkey'], 20);
      await requestCancel(watched.db, tenantId, claimed.fence.runId);
    });
  },
);

function finish(db: Db, fence: Fence, stepNo: number) {
  const next = planNext({
    runId: fence.runId,
    stepNo,
    stepsBefore: stepNo - 1,
    maxSteps: 50,
    finishReason: 'stop',
    toolCalls: 0,
    result: { kind: 'answered' },
  });
  return finishStep(db, fence, {
    moves: [],
    usage: NO_USAGE,
    costUsd: 0,
    nextRunId: randomUUID(),
    steps: 1,
    events: [],
    next,
  });
}
