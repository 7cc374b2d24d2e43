import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { formatId } from '../../src/domain/ids.ts';
import { newId } from '../../src/platform/new-id.ts';
import { deleteOrphanedBlobs } from '../../src/store/around/retention.ts';
import { importConversation } from '../../src/store/session/conversations.ts';
import { insertSession } from '../../src/store/session/sessions.ts';
import { attachBlobs, bytesBlob, putBlob } from '../../src/store/transcript/blobs.ts';
import { keepAnswerFiles, keepUserFiles, readMedia } from '../../src/store/transcript/media.ts';
import { eventually } from '../support/eventually.ts';
import { PNG, PNG_BASE64 } from '../support/png.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database[Symbol.asyncDispose]());

const agent = { agentName: 'a', agentVersion: '1', agentSnapshot: {}, title: null, metadata: {} };
const createSession = async (tenantId = 'default'): Promise<string> =>
  (await insertSession(database.db, { id: newId(), tenantId, ...agent })).id;
const textBytes = (text: string) => bytesBlob(newId(), 'text/plain', Buffer.from(text));
const file = (url: string) => ({ type: 'file' as const, mediaType: '', url });
const keep = (tenantId: string, sessionId: string, ...urls: string[]) =>
  database.db.transaction().execute((tx) => keepUserFiles(tx, { tenantId, sessionId }, urls.map(file)));

describe('the files of a session', () => {
  it('are the blobs that it refers to, and no others', async () => {
    const { db } = database;
    const [mine, other] = [await createSession(), await createSession()];
    const [kept] = await keep('default', mine, `data:image/png;base64,${PNG_BASE64}`);
    const view = [{ id: 'm', seq: 1, role: 'user' as const, model: null, parts: kept === undefined ? [] : [kept] }];
    expect([...(await readMedia(db, mine, view)).values()]).toEqual([PNG_BASE64]);
    expect([...(await readMedia(db, other, view)).values()]).toEqual([]);
  });

  it('may be uploaded before, by the same tenant', async () => {
    const blob = await putBlob(database.db, 'alpha', bytesBlob(newId(), 'image/png', Buffer.from(PNG)));
    const url = `@blob:${formatId('blob', blob.id)}`;
    const named = { type: 'file', mediaType: 'image/png', url, sizeBytes: PNG.length };
    expect(await keep('alpha', await createSession('alpha'), url)).toEqual([named]);
    await expect(keep('beta', await createSession('beta'), url)).rejects.toMatchObject({ code: 'invalid_request' });
  });

  it('of an answer are blobs, too', async () => {
    const session = await createSession();
    const answer = { type: 'file' as const, mediaType: 'image/png', url: `data:image/png;base64,${PNG_BASE64}` };
    const [text, image] = await keepAnswerFiles(database.db, session, [{ type: 'text', text: 'a' }, answer]);
    expect(text).toEqual({ type: 'text', text: 'a' });
    expect(image).toMatchObject({ type: 'file', url: expect.stringMatching(/^@blob:/), sizeBytes: PNG.length });
  });

  it('are locked in one order, however the messages of two conversations have them', async () => {
    const { db } = database;
    const texts = ['one of two', 'the other one'];
    const urls = texts.map((text) => `data:text/plain;base64,${Buffer.from(text).toString('base64')}`);
    const take = async (order: readonly string[]): Promise<void> => {
      const session = { tenantId: 'default', id: await createSession() };
      const messages = order.map((url) => ({ role: 'user' as const, parts: [file(url)] }));
      await db.transaction().execute((tx) => importConversation(tx, session, messages));
    };
    const waiting = async (): Promise<boolean> => {
      const { rows } = await sql`
        select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
          and query like '%blobs%'`.execute(db);
      return rows.length === 2;
    };
    let taking: Promise<unknown> = Promise.resolve();
    await db.transaction().execute(async (tx) => {
      for (const text of texts) await putBlob(tx, 'default', textBytes(text));
      taking = Promise.all([take(urls), take(urls.toReversed())]);
      await eventually(waiting, 'both wait for a file');
    });
    // Postgres ends one of two that wait for each other.
    await expect(taking).resolves.toHaveLength(2);
  });

  it('are written by many sessions at once, whatever their order, while others are collected', async () => {
    const { db } = database;
    const texts = Array.from({ length: 12 }, (_, index) => `shared ${index}`);
    const sessions = await Promise.all(Array.from({ length: 8 }, () => createSession()));
    await Promise.all(texts.map((text) => putBlob(db, 'default', textBytes(text))));
    await sql`update blobs set created_at = clock_timestamp() - interval '2 days' where media_type = 'text/plain'`.execute(
      db,
    );
    const collect = async (): Promise<void> => {
      let after: Uint8Array | null = null;
      for (let round = 0; round < 20; round++) {
        ({ last: after } = await deleteOrphanedBlobs(db, 'default', { before: new Date(), after, limit: 5 }));
      }
    };
    const attach = async (session: string, at: number): Promise<void> => {
      const turned = [...texts.slice(at), ...texts.slice(0, at)];
      for (const list of [turned, turned.toReversed()])
        await attachBlobs(db, { sessionId: session }, list.map(textBytes));
    };
    await Promise.all([collect(), ...sessions.map(attach), collect()]);
    const { rows } = await sql<{ refs: number; blobs: number }>`
      select count(*)::int as refs, count(distinct blob_id)::int as blobs from blob_refs
      where session_id = any(${sessions}::uuid[])`.execute(db);
    expect(rows).toEqual([{ refs: sessions.length * texts.length, blobs: texts.length }]);
  });
});
