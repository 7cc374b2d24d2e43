import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { formatId } from '../../src/domain/ids.ts';
import type { LogEvent } from '../../src/platform/log.ts';
import { newId } from '../../src/platform/new-id.ts';
import type { JobQueues } from '../../src/queues/job-queue.ts';
import { openQueues } from '../../src/queues/open-queues.ts';
import {
  applyRetention,
  createBatches,
  eachSession,
  previewRetention,
  removeExpired,
  startRetention,
} from '../../src/recovery/retention.ts';
import { appendAudit, listAudit } from '../../src/store/around/audit.ts';
import type { Db } from '../../src/store/db/database.ts';
import { readLiveSnapshot } from '../../src/store/lists/live-snapshot.ts';
import { insertSession } from '../../src/store/session/sessions.ts';
import { textBlob } from '../../src/store/transcript/blobs.ts';
import { appendEvents, readEvents } from '../../src/store/transcript/events.ts';
import { startTestApi } from '../http/test-api.ts';
import { eventually } from '../support/eventually.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { startTestService } from '../support/service.ts';
import { acceptMessage } from '../support/unlimited.ts';

const DAY_MS = 86_400_000;
const MONTH_MS = 30 * DAY_MS;
const tenantId = 'default';

async function createSession(db: Db): Promise<string> {
  const agent = { agentName: 'a', agentVersion: '1', agentSnapshot: {} };
  return (await insertSession(db, { id: newId(), tenantId, ...agent, title: null, metadata: {} })).id;
}

const startRun = (db: Db, sessionId: string) =>
  acceptMessage(db, {
    tenantId,
    sessionId,
    messageId: newId(),
    content: [{ type: 'text', text: 'x' }],
    runId: newId(),
  });

const DAYS_AGO = (days: number) => sql<Date>`clock_timestamp() - make_interval(days => ${days})`;
const age = (db: Db, sessionId: string, days: number) =>
  sql`update sessions set created_at = ${DAYS_AGO(days)}, updated_at = ${DAYS_AGO(days)} where id = ${sessionId}`.execute(
    db,
  );

async function addEvents(db: Db, sessionId: string, count: number, days: number): Promise<void> {
  const events = Array.from({ length: count }, () => ({ type: 'message:removed' as const, data: { ids: [] } }));
  const last = await db.transaction().execute((tx) => appendEvents(tx, sessionId, null, events));
  await sql`update events set created_at = ${DAYS_AGO(days)}
    where session_id = ${sessionId} and seq > ${last - count}`.execute(db);
  await sql`update sessions set created_at = ${DAYS_AGO(days)} where id = ${sessionId} and created_at > ${DAYS_AGO(days)}`.execute(
    db,
  );
}

async function addBlob(db: Db, text: string, days: number, sessionId: string | null): Promise<string> {
  const { id, sha256, mediaType, bytes } = textBlob(newId(), text);
  await sql`insert into blobs (id, tenant_id, sha256, media_type, size_bytes, bytes, created_at)
    values (${id}, ${tenantId}, ${sha256}, ${mediaType}, ${bytes.length}, ${bytes}, ${DAYS_AGO(days)})`.execute(db);
  if (sessionId !== null) {
    await db.insertInto('blob_refs').values({ blob_id: id, session_id: sessionId, tenant_id: tenantId }).execute();
  }
  return id;
}

const idsOf = async (db: Db, table: 'sessions' | 'blobs') =>
  (await db.selectFrom(table).select('id').execute()).map(({ id }) => id).toSorted();

const quiet = () => undefined;

const stack = new AsyncDisposableStack();
let jobs: JobQueues;
beforeAll(async () => {
  const { connectionString } = stack.use(await createTestDatabase());
  jobs = stack.use(await openQueues({ redisUrl: undefined, queuePrefix: 'none' }, connectionString, quiet));
});
afterAll(() => stack.disposeAsync());

describe('retention', () => {
  it('deletes idle sessions that are older, and expired ones, with everything in them', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const [old, expired, fresh] = [await createSession(db), await createSession(db), await createSession(db)];
    await addEvents(db, old, 3, 40);
    await age(db, old, 31);
    await age(db, fresh, 29);
    await sql`update sessions set expires_at = ${DAYS_AGO(1)} where id = ${expired}`.execute(db);
    await sql`update sessions set expires_at = ${DAYS_AGO(-1)} where id = ${fresh}`.execute(db);
    expect(await applyRetention({ db, jobs, log: quiet }, MONTH_MS)).toMatchObject({ sessions: 2 });
    expect(await idsOf(db, 'sessions')).toEqual([fresh]);
    expect(await readEvents(db, tenantId, old, { afterSeq: 0, limit: 10 })).toEqual([]);
  });

  it('deletes a session from the time on that its caller has named', async () => {
    await using api = await startTestApi();
    const [over, later] = ['2020-01-01T00:00:00Z', '9998-12-31T00:00:00-23:00'];
    await api.createSession({ expiresAt: over });
    const kept = await api.createSession({ expiresAt: later });
    expect(await previewRetention({ db: api.db, jobs }, MONTH_MS)).toMatchObject({ sessions: 1 });
    expect(await applyRetention({ db: api.db, jobs, log: quiet }, MONTH_MS)).toMatchObject({ sessions: 1 });
    expect((await idsOf(api.db, 'sessions')).map((id) => formatId('session', id))).toEqual([kept]);
  });

  it('removes by default what has expired, and nothing else however old it is', async () => {
    await using service = await startTestService({ backend: 'postgres' });
    const { db } = service.deps;
    const [expired, old] = [await createSession(db), await createSession(db)];
    await addEvents(db, old, 3, 1_000);
    await addBlob(db, 'orphaned', 1, null);
    await age(db, old, 1_000);
    await appendAudit(db, { tenantId, keyId: null, action: 'session:cancel', target: 'old' });
    await sql`update audit_log set created_at = ${DAYS_AGO(1_000)}`.execute(db);
    await sql`update sessions set expires_at = ${DAYS_AGO(1)} where id = ${expired}`.execute(db);
    await service.startWorker();
    await eventually(async () => (await idsOf(db, 'sessions')).length === 1, 'the worker has removed it');
    expect(await idsOf(db, 'sessions')).toEqual([old]);
    const logged: LogEvent[] = [];
    const log = (_level: unknown, event: LogEvent) => void logged.push(event);
    expect(await removeExpired({ db, log })).toBe(0);
    expect(logged).toEqual([]);
    await sql`update sessions set expires_at = ${DAYS_AGO(1)}`.execute(db);
    expect(await readEvents(db, tenantId, old, { afterSeq: 0, limit: 9 })).toHaveLength(3);
    expect(await removeExpired({ db, log })).toBe(1);
    expect(logged).toMatchObject([{ event: 'retention_applied', before: null, sessions: 1 }]);
    expect(await idsOf(db, 'blobs')).toHaveLength(1);
    expect(await listAudit(db, { tenantId, limit: 9 })).toHaveLength(1);
  });

  it('leaves alone what is at work, however old, expired and full of old events and blobs it is', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const busy = await createSession(db);
    await startRun(db, busy);
    await addEvents(db, busy, 5, 100);
    await addBlob(db, 'of the busy one', 100, busy);
    await sql`update events set created_at = ${DAYS_AGO(100)}`.execute(db);
    await sql`update sessions set updated_at = ${DAYS_AGO(100)}, expires_at = ${DAYS_AGO(50)}`.execute(db);
    const before = await sql`select to_jsonb(s) as session from sessions s`.execute(db);
    const nothing = { sessions: 0, events: 0, blobs: 0, auditEntries: 0, failedJobs: 0 };
    expect(await previewRetention({ db, jobs }, MONTH_MS)).toEqual(nothing);
    expect(await applyRetention({ db, jobs, log: quiet }, MONTH_MS)).toEqual(nothing);
    expect((await sql`select to_jsonb(s) as session from sessions s`.execute(db)).rows).toEqual(before.rows);
    expect((await readEvents(db, tenantId, busy, { afterSeq: 0, limit: 100 })).length).toBe(6);
  });

  it('leaves a session alone that comes to life while it is looked for', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const session = await createSession(db);
    await age(db, session, 100);
    const held = await db.transaction().execute(async (tx) => {
      await tx.selectFrom('sessions').select('id').where('id', '=', session).forNoKeyUpdate().execute();
      return applyRetention({ db, jobs, log: quiet }, MONTH_MS);
    });
    expect(held.sessions).toBe(0);
    expect(await idsOf(db, 'sessions')).toEqual([session]);
  });

  it('trims the old events of a session that stays, in many batches, and says where its log begins', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const session = await createSession(db);
    await addEvents(db, session, 4_500, 40);
    await addEvents(db, session, 10, 1);
    expect(await previewRetention({ db, jobs }, MONTH_MS)).toMatchObject({ sessions: 0, events: 4_500 });
    expect(await applyRetention({ db, jobs, log: quiet }, MONTH_MS)).toMatchObject({ sessions: 0, events: 4_500 });
    const kept = await readEvents(db, tenantId, session, { afterSeq: 0, limit: 100 });
    expect(kept.map(({ seq }) => seq)).toEqual(Array.from({ length: 10 }, (_, n) => 4_501 + n));
    expect(await readLiveSnapshot(db, tenantId, session)).toMatchObject({ eventsFirstSeq: 4_501, eventSeq: 4_510 });
    await sql`update events set created_at = ${DAYS_AGO(31)}`.execute(db);
    expect(await applyRetention({ db, jobs, log: quiet }, MONTH_MS)).toMatchObject({ events: 10 });
    expect(await readLiveSnapshot(db, tenantId, session)).toMatchObject({ eventsFirstSeq: 4_511, eventSeq: 4_510 });
    await addEvents(db, session, 1, 0);
    expect((await readEvents(db, tenantId, session, { afterSeq: 0, limit: 100 })).map(({ seq }) => seq)).toEqual([
      4_511,
    ]);
  });

  it('gives a reader of what is gone a fresh snapshot that says so', async () => {
    await using api = await startTestApi();
    const id = await api.createSession();
    const { id: session } = await api.db.selectFrom('sessions').select('id').executeTakeFirstOrThrow();
    await addEvents(api.db, session, 5, 40);
    await addEvents(api.db, session, 1, 0);
    await applyRetention({ db: api.db, jobs, log: quiet }, MONTH_MS);
    const hangUp = new AbortController();
    const response = await fetch(`${api.url}/v1/sessions/${id}/events?after=2`, { signal: hangUp.signal });
    let text = '';
    for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      text += chunk;
      if (text.includes('message:removed')) break;
    }
    hangUp.abort();
    expect(text).toMatch(/event: session:snapshot\ndata: .*"reset":true/);
    expect(text).toMatch(/id: 6\nevent: message:removed/);
  });

  it('deletes old blobs that nobody refers to, those of deleted sessions among them', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const [old, fresh] = [await createSession(db), await createSession(db)];
    await age(db, old, 40);
    await addBlob(db, 'orphaned', 40, null);
    await addBlob(db, 'of the old one', 40, old);
    const kept = [await addBlob(db, 'in use', 40, fresh), await addBlob(db, 'just uploaded', 1, null)];
    const counts = { sessions: 1, events: 0, blobs: 2, auditEntries: 0, failedJobs: 0 };
    expect(await previewRetention({ db, jobs }, MONTH_MS)).toEqual(counts);
    expect(await idsOf(db, 'blobs')).toHaveLength(4);
    expect(await applyRetention({ db, jobs, log: quiet }, MONTH_MS)).toEqual(counts);
    expect(await idsOf(db, 'blobs')).toEqual(kept.toSorted());
  });

  it('removes old entries of the audit log', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    for (const target of ['old', 'new']) {
      await appendAudit(db, { tenantId, keyId: null, action: 'session:cancel', target });
    }
    await sql`update audit_log set created_at = ${DAYS_AGO(31)} where target = 'old'`.execute(db);
    expect(await applyRetention({ db, jobs, log: quiet }, MONTH_MS)).toMatchObject({ auditEntries: 1 });
    expect((await listAudit(db, { tenantId, limit: 9 })).map(({ target }) => target)).toEqual(['new']);
  });

  it('removes what the queues keep of runs that failed before', async () => {
    await using database = await createTestDatabase();
    const deps = { db: database.db, jobs, log: quiet };
    await using _consumer = await jobs.consume(
      'step',
      async () => ({ outcome: 'run-failed', error: { code: 'auth', message: 'No.' } }),
      {
        concurrency: 1,
      },
    );
    await jobs.add([{ runId: newId(), kind: 'step', no: 1, dispatch: 1 }]);
    await eventually(async () => (await jobs.counts()).step.failed === 1, 'the job is kept');
    expect(await previewRetention(deps, MONTH_MS)).toMatchObject({ failedJobs: 0 });
    expect(await applyRetention(deps, MONTH_MS)).toMatchObject({ failedJobs: 0 });
    expect(await previewRetention(deps, 0)).toMatchObject({ failedJobs: 1 });
    expect(await applyRetention(deps, 0)).toMatchObject({ failedJobs: 1 });
    expect((await jobs.counts()).step.failed).toBe(0);
  });

  it('may be done by several at once, and by a process on its own', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    for (let n = 0; n < 30; n++) await age(db, await createSession(db), 40);
    const counts = await Promise.all([1, 2, 3].map(() => applyRetention({ db, jobs, log: quiet }, MONTH_MS)));
    expect(counts.reduce((sum, { sessions }) => sum + sessions, 0)).toBe(30);
    await age(db, await createSession(db), 40);
    const logged: LogEvent[] = [];
    await using _retention = startRetention({ db, jobs, log: (_level, event) => void logged.push(event) }, 30);
    await eventually(async () => logged.length > 0, 'it is applied at the start');
    expect(logged).toMatchObject([{ event: 'retention_applied', sessions: 1 }]);
  });
});

describe('turns', () => {
  const notOver = (): boolean => false;
  const placeOf = (no: number) => ({ id: String(no), createdAt: new Date(no) });
  const pagesOf = (count: number) =>
    Array.from({ length: count }, (_, no) => [placeOf(2 * no + 1), placeOf(2 * no + 2)]);

  it('go from tenant to tenant, and end for all when one has had its share of a sweep', async () => {
    const pages = new Map([
      ['loud', pagesOf(25)],
      ['quiet', pagesOf(1)],
    ]);
    const order: string[] = [];
    const work = {
      async find(tenantId: string) {
        order.push(tenantId);
        return pages.get(tenantId)?.shift() ?? [];
      },
      remove: async () => 1,
    };
    const turns = createBatches(['loud', 'quiet'], notOver, eachSession(notOver, work));
    expect(await turns.sweep()).toBe(22);
    expect(order.slice(0, 4)).toEqual(['loud', 'quiet', 'loud', 'quiet']);
    expect(turns.hasMore()).toBe(true);
    expect([await turns.sweep(), await turns.sweep(), turns.hasMore()]).toEqual([20, 10, false]);
  });

  it('go on behind what was found before, also where it could not be removed', async () => {
    const asked: number[] = [];
    const work = {
      async find(_tenantId: string, { createdAt }: Readonly<{ createdAt: Date }>) {
        asked.push(createdAt.getTime());
        return asked.length < 3 ? [placeOf(asked.length)] : [];
      },
      remove: async () => 0,
    };
    const turns = createBatches(['acme'], notOver, eachSession(notOver, work));
    expect([await turns.sweep(), turns.hasMore(), asked]).toEqual([0, false, [0, 1, 2]]);
  });
});
