import { sql } from 'kysely';
import { describe, expect, test } from 'vitest';
import { newId } from '../../src/platform/new-id.ts';
import { removeWaiting } from '../../src/store/changes/waiting.ts';
import type { Db, Tx } from '../../src/store/db/database.ts';
import {
  findAnsweredSessions,
  findRepeatableMessage,
  findSessionsByQuestion,
  inFirstSession,
  storeAnswer,
  storeQuestion,
} from '../../src/store/session/conversations.ts';
import { insertSession } from '../../src/store/session/sessions.ts';
import { eventually } from '../support/eventually.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { acceptMessage } from '../support/unlimited.ts';

const QUESTION = Buffer.from('question');
const ANSWER = Buffer.from('answer');
const scope = { tenantId: 'default' } as const;
const owner = { ...scope, agentName: 'tester' };

async function createSession(db: Db): Promise<string> {
  const agent = { agentName: 'tester', agentVersion: '1', agentSnapshot: {} };
  return (await insertSession(db, { id: newId(), ...scope, ...agent, title: null, metadata: {} })).id;
}

/** A message of a client that sends its whole conversation, or of another client. */
async function say(db: Db, sessionId: string, isAsked = true): Promise<Readonly<{ messageId: string; runId: string }>> {
  const content = [{ type: 'text', text: 'Go' }] as const;
  return db.transaction().execute(async (tx) => {
    const sent = { ...scope, sessionId, messageId: newId(), runId: newId(), content, delivery: 'followup' } as const;
    const { messageId, runId } = await acceptMessage(tx, sent);
    if (isAsked) await storeQuestion(tx, sessionId, { questionHash: QUESTION, keptUntil: null });
    return { messageId, runId };
  });
}

const askedSessions = (db: Db) => findSessionsByQuestion(db, owner, QUESTION);
const answeredSessions = (db: Db) => findAnsweredSessions(db, owner, ANSWER);
const newestMessage = (db: Db, sessionId: string) =>
  db.transaction().execute((tx) => findRepeatableMessage(tx, sessionId));

describe('a question', () => {
  test('is found until its message is removed or another message comes', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const sessionId = await createSession(db);
    await say(db, sessionId, false);
    expect(await askedSessions(db)).toEqual([]);
    const first = await say(db, sessionId);
    expect(await askedSessions(db)).toEqual([sessionId]);
    expect(await newestMessage(db, sessionId)).toBe(first.messageId);
    await removeWaiting(db, { ...scope, sessionId, messageId: first.messageId });
    expect(await askedSessions(db)).toEqual([]);
    const second = await say(db, sessionId);
    expect(await askedSessions(db)).toEqual([sessionId]);
    expect(await newestMessage(db, sessionId)).toBe(second.messageId);
    await say(db, sessionId, false);
    expect(await askedSessions(db)).toEqual([]);
  });

  test.each([
    [
      'for a minute after the end of its run',
      [
        [sql`status = 'running'`, true],
        [sql`status = 'completed', finished_at = clock_timestamp() - interval '50 s'`, true],
        [sql`finished_at = clock_timestamp() - interval '70 s'`, false],
      ],
    ],
    [
      'until its run is cancelled',
      [
        [sql`status = 'running'`, true],
        [sql`status = 'cancelling'`, false],
        [sql`status = 'cancelled', finished_at = clock_timestamp()`, false],
      ],
    ],
  ] as const)('is found %s', async (_, changes) => {
    await using database = await createTestDatabase();
    const { db } = database;
    const sessionId = await createSession(db);
    const { runId, messageId } = await say(db, sessionId);
    await sql`update inbox set run_id = ${runId}, consumed_message_seq = 1 where id = ${messageId}`.execute(db);
    for (const [change, isFound] of changes) {
      await sql`update runs set ${change} where id = ${runId}`.execute(db);
      expect(await askedSessions(db)).toEqual(isFound ? [sessionId] : []);
      expect(await newestMessage(db, sessionId)).toBe(isFound ? messageId : null);
    }
  });
});

describe('an answer', () => {
  test('is the answer to the newest question only', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const sessionId = await createSession(db);
    await say(db, sessionId);
    await storeAnswer(db, { ...scope, sessionId }, { questionHash: Buffer.from('another'), answerHash: ANSWER });
    expect(await answeredSessions(db)).toEqual([]);
    await storeAnswer(db, { ...scope, sessionId }, { questionHash: QUESTION, answerHash: ANSWER });
    expect(await answeredSessions(db)).toEqual([sessionId]);
    await say(db, sessionId, false);
    expect(await answeredSessions(db)).toEqual([]);
    await storeAnswer(db, { ...scope, sessionId }, { questionHash: QUESTION, answerHash: ANSWER });
    expect(await answeredSessions(db)).toEqual([]);
  });

  test('is looked for without keeping the lock of a session that was continued meanwhile', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const [taken, free] = [await createSession(db), await createSession(db)];
    for (const sessionId of [free, taken]) {
      await say(db, sessionId);
      await storeAnswer(db, { ...scope, sessionId }, { questionHash: QUESTION, answerHash: ANSWER });
      await sql`update sessions set updated_at = clock_timestamp() where id = ${sessionId}`.execute(db);
    }
    async function* candidates(): AsyncGenerator<string> {
      yield* await answeredSessions(db);
    }
    const takeAnswered = (tx: Tx) =>
      inFirstSession(tx, scope.tenantId, candidates(), async ({ id, conversation_head: answerHash }) =>
        answerHash === null ? null : id,
      );
    const lock = (id: string) => sql`select 1 from sessions where id = ${id} for no key update nowait`.execute(db);
    let second: Promise<void> | undefined;
    await db.transaction().execute(async (one) => {
      expect(await takeAnswered(one)).toBe(taken);
      second = db.transaction().execute(async (two) => {
        expect(await takeAnswered(two)).toBe(free);
        await lock(taken);
        await expect(lock(free)).rejects.toThrow(/could not obtain lock/);
      });
      second.catch(() => undefined);
      await eventually(async () => {
        const { rows } = await sql`
          select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`.execute(db);
        return rows.length > 0;
      }, 'the second waits for the session that the first has locked');
      await storeQuestion(one, taken, { questionHash: Buffer.from('more'), keptUntil: null });
    });
    await second;
  });
});
