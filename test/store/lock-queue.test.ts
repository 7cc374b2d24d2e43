import { sql } from 'kysely';
import pg from 'pg';
import { describe, expect, it } from 'vitest';
import { MAX_CONNECTIONS_PER_LOCK } from '../../src/domain/tunables.ts';
import { newId } from '../../src/platform/new-id.ts';
import { answerOnce } from '../../src/store/around/idempotency.ts';
import { type Db, openDatabase } from '../../src/store/db/database.ts';
import { findSession, insertSession, updateSession } from '../../src/store/session/sessions.ts';
import { eventually } from '../support/eventually.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { acceptMessage } from '../support/unlimited.ts';

const CONNECTIONS = 4;
const SENDERS = 12;
const tenantId = 'default';

/** A database whose client has few connections, and two sessions in it. */
async function openFew() {
  await using stack = new AsyncDisposableStack();
  const database = stack.use(await createTestDatabase());
  const { connectionString } = database;
  const db = openDatabase({ connectionString, maxConnections: CONNECTIONS, answerWithinMs: 60_000 });
  stack.defer(() => db.destroy());
  const [locked, other] = [newId(), newId()];
  const agent = { agentName: 'tester', agentVersion: '1', agentSnapshot: { name: 'tester', model: 'test/test' } };
  for (const id of [locked, other]) await insertSession(db, { id, tenantId, ...agent, title: null, metadata: {} });
  const holder = new pg.Client({ connectionString });
  await holder.connect();
  stack.defer(() => holder.end());
  const owned = stack.move();
  return {
    db,
    locked,
    other,
    hold: async () => {
      await holder.query('begin');
      await holder.query('select from sessions where id = $1 for update', [locked]);
    },
    release: () => holder.query('rollback'),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

const waitingFor = async (db: Db, count: number): Promise<void> => {
  await eventually(async () => {
    const { rows } = await sql`
      select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`.execute(db);
    return rows.length === count;
  }, `${count} connections wait for a lock`);
};

const send = (db: Db, sessionId: string) =>
  acceptMessage(db, {
    tenantId,
    sessionId,
    messageId: newId(),
    content: [{ type: 'text', text: 'x' }],
    runId: newId(),
  });

describe('requests about one session', () => {
  it('wait for its lock with a few connections, so that others are served, and come to their turn', async () => {
    await using few = await openFew();
    const { db, locked, other } = few;
    await few.hold();
    const sent = Promise.all(Array.from({ length: SENDERS }, () => send(db, locked)));
    const renamed = updateSession(db, tenantId, locked, { title: 'new' });
    await waitingFor(db, MAX_CONNECTIONS_PER_LOCK);
    expect(await findSession(db, tenantId, other)).toMatchObject({ id: other });
    expect(await send(db, other)).toMatchObject({ queued: false });
    await few.release();
    expect(new Set((await sent).map(({ position }) => position)).size).toBe(SENDERS);
    expect(await renamed).toMatchObject({ title: 'new' });
  });

  it('do the work of one key once, and wait for that likewise', async () => {
    await using few = await openFew();
    const { db, locked, other } = few;
    await few.hold();
    let times = 0;
    const keyed = { tenantId, route: 'POST /', key: 'same', requestSha256: Buffer.alloc(32) };
    const work = () =>
      answerOnce(db, keyed, async (tx) => {
        await acceptMessage(tx, {
          tenantId,
          sessionId: locked,
          messageId: newId(),
          content: [{ type: 'text', text: 'x' }],
          runId: newId(),
        });
        times += 1;
        return { status: 200, body: {} };
      });
    const answers = Promise.all(Array.from({ length: SENDERS }, work));
    // One waits for the session, and those that may for the key.
    await waitingFor(db, 1 + MAX_CONNECTIONS_PER_LOCK);
    expect(await findSession(db, tenantId, other)).toMatchObject({ id: other });
    await few.release();
    expect((await answers).filter(({ isReplay }) => isReplay)).toHaveLength(SENDERS - 1);
    expect(times).toBe(1);
  });
});

it('a statement that takes too long ends in Postgres, and its connection goes on', async () => {
  await using database = await createTestDatabase();
  const db = openDatabase({ connectionString: database.connectionString, maxConnections: 1, answerWithinMs: 4_000 });
  await using stack = new AsyncDisposableStack();
  stack.defer(() => db.destroy());
  const pid = async (): Promise<unknown> => (await sql`select pg_backend_pid() as pid`.execute(db)).rows[0];
  const before = await pid();
  await expect(sql`select pg_sleep(3600)`.execute(db)).rejects.toMatchObject({ code: '57014' });
  expect(await pid()).toEqual(before);
});
