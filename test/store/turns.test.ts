import { sql } from 'kysely';
import { describe, expect, test } from 'vitest';
import type { TurnPlace } from '../../src/domain/run/turn.ts';
import { NO_USAGE } from '../../src/domain/usage.ts';
import { newId } from '../../src/platform/new-id.ts';
import { placeAnswer, readTurn, storeTurn, takeTurn } from '../../src/store/conversations.ts';
import type { Db } from '../../src/store/database.ts';
import { acceptMessage, findAccepted } from '../../src/store/inbox.ts';
import { insertSession } from '../../src/store/sessions.ts';
import { removeWaiting } from '../../src/store/waiting.ts';
import { createTestDatabase } from '../support/postgres.ts';

const ASKED = Buffer.from('asked');
const scope = { tenantId: 'default' } as const;

async function createSession(db: Db): Promise<string> {
  const agent = { agentName: 'tester', agentVersion: '1', agentSnapshot: {} };
  return (await insertSession(db, { id: newId(), ...scope, ...agent, title: null, metadata: {} })).id;
}

/** A message with which something was asked, or one of another way. */
async function say(db: Db, sessionId: string, isAsked = true): Promise<Readonly<{ messageId: string; runId: string }>> {
  const content = [{ type: 'text', text: 'Go' }] as const;
  return db.transaction().execute(async (tx) => {
    const sent = { ...scope, sessionId, messageId: newId(), runId: newId(), content, delivery: 'followup' } as const;
    const { messageId, runId } = await acceptMessage(tx, sent);
    const turn = { messageId, runId, afterSeq: null, usedBefore: NO_USAGE, key: null };
    if (isAsked) await storeTurn(tx, sessionId, { asked: ASKED, turn, readerId: newId() });
    return { messageId, runId };
  });
}

const ANSWERED = Buffer.from('answered');
const headOf = async (db: Db, id: string) => {
  const session = db.selectFrom('sessions').select('conversation_head').where('id', '=', id);
  return (await session.executeTakeFirstOrThrow()).conversation_head;
};
const turnOf = (db: Db, sessionId: string) => db.transaction().execute((tx) => readTurn(tx, sessionId));

describe('what a client has asked last', () => {
  test('was not asked, once its message is removed: nothing can join or resume it without what it said', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const waitsBehind = [[], ['something else']];
    for (const before of waitsBehind) {
      const sessionId = await createSession(db);
      for (const _ of before) await say(db, sessionId, false);
      const { messageId, runId } = await say(db, sessionId);
      expect(await turnOf(db, sessionId)).toMatchObject({ turn: { messageId, runId } });
      await removeWaiting(db, { ...scope, sessionId, messageId });
      expect(await turnOf(db, sessionId)).toBeNull();
      const found = db.transaction().execute((tx) => findAccepted(tx, { ...scope, sessionId, messageId }));
      expect(await found).toBeNull();
    }
  });

  test('is asked still, where something is removed that waits before it', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const sessionId = await createSession(db);
    await say(db, sessionId, false);
    const other = await say(db, sessionId, false);
    const { messageId } = await say(db, sessionId);
    await removeWaiting(db, { ...scope, sessionId, messageId: other.messageId });
    expect(await turnOf(db, sessionId)).toMatchObject({ turn: { messageId } });
    await removeWaiting(db, { ...scope, sessionId, messageId: null });
    expect(await turnOf(db, sessionId)).toBeNull();
  });

  test('has the answer of its own run, from where that went on: no other is placed', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const sessionId = await createSession(db);
    const { runId } = await say(db, sessionId);
    const place = (turn: TurnPlace, asked = ASKED) =>
      placeAnswer(db, { ...scope, sessionId }, { asked, turn, answered: ANSWERED, readerId: newId() });
    const others = [
      await place({ runId: newId(), afterSeq: null }),
      await place({ runId, afterSeq: 7 }),
      await place({ runId, afterSeq: null }, Buffer.from('another')),
    ];
    expect([others, await headOf(db, sessionId)]).toEqual([[false, false, false], null]);
    expect(await place({ runId, afterSeq: null })).toBe(true);
    expect(await headOf(db, sessionId)).toEqual(ANSWERED);
    const turn = { messageId: null, runId, afterSeq: 7, usedBefore: NO_USAGE, key: null };
    await db.transaction().execute((tx) => storeTurn(tx, sessionId, { asked: ASKED, turn, readerId: newId() }));
    expect([await place({ runId, afterSeq: null }), await place({ runId, afterSeq: 7 })]).toEqual([false, true]);
  });

  test('is looked for without keeping the locks of sessions that turn out to be none', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const wrong = [await createSession(db), await createSession(db)];
    const right = await createSession(db);
    for (const sessionId of [right, ...wrong]) {
      await say(db, sessionId);
      await sql`update sessions set updated_at = clock_timestamp() where id = ${sessionId}`.execute(db);
    }
    const lock = (id: string) => sql`select 1 from sessions where id = ${id} for no key update nowait`.execute(db);
    const seen: string[] = [];
    await db.transaction().execute(async (tx) => {
      // They look right until they are locked.
      const found = await takeTurn(tx, { ...scope, agentName: 'tester' }, { asked: ASKED }, ({ sessionId }) => {
        seen.push(sessionId);
        return sessionId === right || seen.filter((id) => id === sessionId).length === 1;
      });
      expect(found?.sessionId).toBe(right);
      await expect(lock(right)).rejects.toThrow(/could not obtain lock/);
      for (const id of wrong) await lock(id);
    });
    expect(seen).toEqual([...wrong.toReversed(), right].flatMap((id) => [id, id]));
  });
});
