import { describe, expect, it } from 'vitest';
import { newId } from '../../src/platform/new-id.ts';
import type { Db } from '../../src/store/db/database.ts';
import { findRun, listRuns, type RunRow } from '../../src/store/session/runs.ts';
import {
  findSession,
  insertSession,
  listSessions,
  type NewSession,
  type SessionRow,
  updateSession,
} from '../../src/store/session/sessions.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { acceptMessage } from '../support/unlimited.ts';

const tenantId = 'default';

function session(changes: Partial<NewSession> = {}): NewSession {
  const agent = { agentName: 'tester', agentVersion: '1', agentSnapshot: {} };
  return { id: newId(), tenantId, ...agent, title: null, metadata: {}, ...changes };
}

async function startRun(db: Db, sessionId: string): Promise<string> {
  const content = [{ type: 'text', text: 'Go' }] as const;
  const ids = { messageId: newId(), runId: newId() };
  return (await acceptMessage(db, { tenantId, sessionId, ...ids, content })).runId;
}

/** All pages of a list, read by its cursor. */
async function readPages<Row extends SessionRow | RunRow>(
  page: (after: { after?: { createdAt: string; id: string } }) => Promise<Row[]>,
): Promise<string[]> {
  const ids: string[] = [];
  let rows = await page({});
  for (let last = rows.at(-1); last !== undefined; last = rows.at(-1)) {
    ids.push(...rows.map(({ id }) => id));
    rows = await page({ after: { createdAt: last.created_at.toISOString(), id: last.id } });
  }
  return ids;
}

describe('sessions', () => {
  it('are created once: a taken id is a conflict and changes nothing', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const first = session({ title: 'First', metadata: { 'a\u0000': 'b' } });
    expect(await insertSession(db, first)).toMatchObject({ status: 'idle', title: 'First', event_seq: 0 });
    await expect(insertSession(db, { ...first, title: 'Second' })).rejects.toMatchObject({ code: 'conflict' });
    expect(await findSession(db, tenantId, first.id)).toMatchObject({ title: 'First', metadata: { 'a\uFFFD': 'b' } });
  });

  it('are not found by another tenant, neither to be read nor to be changed', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const { id } = await insertSession(db, session());
    await expect(findSession(db, 'other', id)).rejects.toMatchObject({ code: 'not_found' });
    await expect(updateSession(db, 'other', id, { title: 'Mine' })).rejects.toMatchObject({ code: 'not_found' });
    expect(await listSessions(db, { tenantId: 'other', limit: 10 })).toEqual([]);
  });

  it('change only in what is given', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const { id } = await insertSession(db, session({ title: 'Old', metadata: { a: '1' } }));
    expect(await updateSession(db, tenantId, id, { metadata: { b: '2' } })).toMatchObject({
      title: 'Old',
      metadata: { b: '2' },
    });
    expect(await updateSession(db, tenantId, id, { title: null })).toMatchObject({ title: null, metadata: { b: '2' } });
  });

  it('are listed newest first, each on exactly one page, also when many are of one moment', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const created: SessionRow[] = [];
    for (let no = 0; no < 7; no++) created.push(await insertSession(db, session()));
    const moments = ['2026-01-01T00:00:00.123Z', '2026-01-02T00:00:00.456Z'];
    for (const [no, { id }] of created.entries()) {
      const createdAt = moments[no % 2] ?? '';
      await db.updateTable('sessions').set({ created_at: createdAt }).where('id', '=', id).execute();
    }
    const expected = created
      .map(({ id }, no) => ({ id, at: moments[no % 2] ?? '' }))
      .toSorted((a, b) => (`${b.at}${b.id}` < `${a.at}${a.id}` ? -1 : 1))
      .map(({ id }) => id);
    expect(await readPages((after) => listSessions(db, { tenantId, limit: 2, ...after }))).toEqual(expected);
  });

  it('are listed page by page without a loss when they came within one millisecond', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const ids: string[] = [];
    for (const micros of ['000100', '000200', '000300', '000400']) {
      const { id } = await insertSession(db, session());
      const createdAt = `2026-01-01T00:00:00.${micros}Z`;
      await db.updateTable('sessions').set({ created_at: createdAt }).where('id', '=', id).execute();
      ids.push(id);
    }
    const listed = await readPages((after) => listSessions(db, { tenantId, limit: 1, ...after }));
    expect(listed.toSorted()).toEqual(ids.toSorted());
  });

  it('are found by all given metadata, and by status', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const both = await insertSession(db, session({ metadata: { team: 'a', env: 'prod' } }));
    const one = await insertSession(db, session({ metadata: { team: 'a', env: 'test' } }));
    await startRun(db, one.id);
    const idsOf = async (filter: object) =>
      (await listSessions(db, { tenantId, limit: 10, ...filter })).map(({ id }) => id);
    expect(await idsOf({ metadata: { team: 'a', env: 'prod' } })).toEqual([both.id]);
    expect(await idsOf({ metadata: { team: 'a' } })).toEqual([one.id, both.id]);
    expect(await idsOf({ metadata: { team: 'b' } })).toEqual([]);
    expect(await idsOf({ status: 'busy' })).toEqual([one.id]);
    expect(await idsOf({ status: 'busy', metadata: { env: 'prod' } })).toEqual([]);
  });
});

describe('runs', () => {
  it('are found by their own tenant only, and listed by session and status, page by page', async () => {
    await using database = await createTestDatabase();
    const { db } = database;
    const sessions = [await insertSession(db, session()), await insertSession(db, session())];
    const runs: string[] = [];
    for (const { id } of sessions) runs.push(await startRun(db, id));
    const [first = '', second = ''] = runs;
    expect(await findRun(db, tenantId, first)).toMatchObject({ status: 'queued', session_id: sessions[0]?.id });
    await expect(findRun(db, 'other', first)).rejects.toMatchObject({ code: 'not_found' });
    expect(await readPages((after) => listRuns(db, { tenantId, limit: 1, ...after }))).toEqual([second, first]);
    const sessionId = sessions[0]?.id ?? '';
    expect((await listRuns(db, { tenantId, limit: 9, sessionId })).map(({ id }) => id)).toEqual([first]);
    expect(await listRuns(db, { tenantId, limit: 9, status: 'completed' })).toEqual([]);
    expect(await listRuns(db, { tenantId: 'other', limit: 9 })).toEqual([]);
  });
});
