import { describe, expect, it } from 'vitest';
import { newId } from '../../src/platform/new-id.ts';
import { requestCancel } from '../../src/store/changes/cancels.ts';
import type { Db } from '../../src/store/db/database.ts';
import { findSession, insertSession } from '../../src/store/session/sessions.ts';
import { startRun } from '../../src/store/session/start-run.ts';
import { listWaiting } from '../../src/store/session/waiting-messages.ts';
import { readEvents } from '../../src/store/transcript/events.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { acceptMessage, type UnlimitedMessage } from '../support/unlimited.ts';

async function createSession(db: Db, tenantId = 'default'): Promise<string> {
  const agent = { agentName: 'tester', agentVersion: '1', agentSnapshot: {} };
  return (await insertSession(db, { id: newId(), tenantId, ...agent, title: null, metadata: {} })).id;
}

function message(sessionId: string, changes: Partial<UnlimitedMessage> = {}): UnlimitedMessage {
  const content = [{ type: 'text', text: 'Go' }] as const;
  return { tenantId: 'default', sessionId, messageId: newId(), content, runId: newId(), ...changes };
}

describe('the inbox of a session', () => {
  it('starts a run with the first message, and lets the others wait behind it in order', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const session = await createSession(db);
    const first = message(session, { limits: { maxSteps: 7 } });
    const accepted = await acceptMessage(db, first);
    expect(accepted).toMatchObject({ runId: first.runId, queued: false, position: 0, status: 'queued' });
    expect(accepted.job).toEqual({ runId: first.runId, kind: 'step', no: 1, dispatch: 1 });
    expect(await findSession(db, 'default', session)).toMatchObject({ status: 'busy', active_run_id: first.runId });
    const later = [message(session), message(session)];
    for (const [index, next] of later.entries()) {
      expect(await acceptMessage(db, next)).toMatchObject({
        runId: first.runId,
        queued: true,
        position: index + 2,
        job: null,
      });
    }
    expect((await listWaiting(db, 'default', session)).map(({ id }) => id)).toEqual(
      [first, ...later].map(({ messageId }) => messageId),
    );
  });

  it('takes a message once, however often and in parallel it is sent', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const session = await createSession(db);
    const sent = message(session);
    const answers = await Promise.all(Array.from({ length: 8 }, () => acceptMessage(db, { ...sent, runId: newId() })));
    expect(new Set(answers.map(({ runId }) => runId)).size).toBe(1);
    expect(answers.filter(({ job }) => job !== null).length).toBe(1);
    expect((await listWaiting(db, 'default', session)).length).toBe(1);
    expect((await readEvents(db, 'default', session, { afterSeq: 0, limit: 100 })).map(({ type }) => type)).toEqual([
      'run:queued',
    ]);
  });

  it('gives messages that are sent at once one run and places of their own', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const session = await createSession(db);
    const answers = await Promise.all(Array.from({ length: 12 }, () => acceptMessage(db, message(session))));
    expect(new Set(answers.map(({ runId }) => runId)).size).toBe(1);
    expect(answers.filter(({ job }) => job !== null).length).toBe(1);
    const places = answers.filter(({ queued }) => queued).map(({ position }) => position);
    expect(places.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 11 }, (_, index) => index + 2));
    expect((await listWaiting(db, 'default', session)).map(({ seq }) => seq)).toEqual(
      answers.map((_, index) => index + 1),
    );
  });

  it('refuses an id that another session has, and a session of another tenant, storing nothing', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const [session, other] = [await createSession(db), await createSession(db)];
    const foreign = await createSession(db, 'someone-else');
    const sent = message(session);
    await acceptMessage(db, sent);
    const refused = (changed: UnlimitedMessage) =>
      acceptMessage(db, changed).then(
        () => 'accepted',
        ({ code }: { code?: string }) => code,
      );
    expect(await refused({ ...sent, sessionId: other })).toBe('conflict');
    expect(await refused(message(foreign))).toBe('not_found');
    expect(await refused(message(newId()))).toBe('not_found');
    for (const [tenantId, untouched] of [
      ['default', other],
      ['someone-else', foreign],
    ] as const) {
      expect(await listWaiting(db, tenantId, untouched)).toEqual([]);
      expect(await readEvents(db, tenantId, untouched, { afterSeq: 0, limit: 10 })).toEqual([]);
    }
  });

  it('says of a message that is sent again whether it was left waiting', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const sessionId = await createSession(db);
    const first = message(sessionId);
    await acceptMessage(db, first);
    expect(await acceptMessage(db, first)).not.toHaveProperty('isParked');
    await requestCancel(db, 'default', first.runId);
    expect(await acceptMessage(db, first)).toMatchObject({ isParked: true });
    const cleanUp = { sessionId, runId: newId(), kind: 'maintenance', pendingKind: 'compaction' } as const;
    await db.transaction().execute((tx) => startRun(tx, cleanUp));
    expect(await acceptMessage(db, first)).toMatchObject({ isParked: true, queued: false, position: 0 });
    // A message that comes during a clean-up is taken up at its end.
    const late = message(sessionId);
    const accepted = await acceptMessage(db, late);
    expect(accepted).toMatchObject({ queued: true, position: 2 });
    expect(accepted).not.toHaveProperty('isParked');
    expect(await acceptMessage(db, late)).toEqual(accepted);
  });
});
