import { describe, expect, test } from 'vitest';
import { parseId } from '../../src/domain/ids.ts';
import { answerStep, claimJob } from './play-worker.ts';
import { startTestApi, type TestApi } from './test-api.ts';

describe('creating a session', () => {
  test('answers 201 with the session and where it is', async () => {
    await using api = await startTestApi();
    const { status, headers, body } = await api.call('POST', '/v1/sessions', {
      agent: 'coder',
      title: 'A task',
      metadata: { team: 'blue' },
      expiresAt: '2199-01-31T13:00:00+01:00',
    });
    expect(status).toBe(201);
    expect(headers.get('location')).toBe(`/v1/sessions/${body['id']}`);
    expect(body).toMatchObject({
      id: expect.stringMatching(/^ses_[0-9a-f]{32}$/),
      agent: 'coder',
      agentVersion: expect.stringMatching(/^[0-9a-f]{16}$/),
      overrides: {},
      title: 'A task',
      metadata: { team: 'blue' },
      status: 'idle',
      activeRunId: null,
      usage: { inputTokens: 0, totalTokens: 0 },
      costUsd: 0,
      expiresAt: '2199-01-31T12:00:00.000Z',
    });
    expect(new Date(String(body['createdAt'])).toISOString()).toBe(body['createdAt']);
    expect((await api.call('GET', `/v1/sessions/${body['id']}`)).body).toEqual(body);
  });
});

describe('changing a session', () => {
  test('replaces what is given and leaves the rest', async () => {
    await using api = await startTestApi();
    const id = await api.createSession({ title: 'old', metadata: { a: '1' } });
    const titled = await api.call('PATCH', `/v1/sessions/${id}`, { title: 'new' });
    expect(titled.status).toBe(200);
    expect(titled.body).toMatchObject({ title: 'new', metadata: { a: '1' } });
    const labelled = await api.call('PATCH', `/v1/sessions/${id}`, { metadata: { b: '2' }, title: null });
    expect(labelled.body).toMatchObject({ title: null, metadata: { b: '2' } });
    expect(labelled.body['metadata']).not.toHaveProperty('a');
    expect(labelled.body['expiresAt']).toBeNull();
    const expiresAt = '2199-01-31T12:00:00.000Z';
    expect((await api.call('PATCH', `/v1/sessions/${id}`, { expiresAt })).body).toMatchObject({ expiresAt });
    expect((await api.call('PATCH', `/v1/sessions/${id}`, { title: 'last' })).body).toMatchObject({ expiresAt });
    expect((await api.call('PATCH', `/v1/sessions/${id}`, { expiresAt: null })).body).toMatchObject({
      expiresAt: null,
    });
    for (const wrong of ['tomorrow', '2199-01-31', 0, '0000-01-01T00:00:00Z', '9999-12-31T23:59:59-23:59']) {
      const { status, body } = await api.call('PATCH', `/v1/sessions/${id}`, { expiresAt: wrong });
      expect([status, body['errors']]).toEqual([400, [expect.objectContaining({ path: 'expiresAt' })]]);
    }
  });
});

describe('deleting a session', () => {
  test('removes it with everything in it', async () => {
    await using api = await startTestApi();
    const id = await api.createSession();
    await api.send(id, 'hello');
    await answerStep(api.db, await claimJob(api.db, api.added[0]), 'done');
    const deleted = await api.call('DELETE', `/v1/sessions/${id}`);
    expect(deleted.status).toBe(204);
    expect((await api.call('GET', `/v1/sessions/${id}`)).status).toBe(404);
    for (const table of ['sessions', 'runs', 'messages', 'parts', 'inbox', 'events'] as const) {
      expect(await api.db.selectFrom(table).selectAll().execute(), table).toEqual([]);
    }
  });

  test('is refused while a run is active, and names the run', async () => {
    await using api = await startTestApi();
    const id = await api.createSession();
    const { body } = await api.send(id, 'hello');
    const refused = await api.call('DELETE', `/v1/sessions/${id}`);
    expect(refused.status).toBe(409);
    expect(refused.body).toMatchObject({ code: 'conflict', detail: expect.stringContaining(String(body['runId'])) });
    expect((await api.call('GET', `/v1/sessions/${id}`)).body['status']).toBe('busy');
  });
});

describe('listing sessions', () => {
  test('pages through all of them exactly once, newest first', async () => {
    await using api = await startTestApi();
    const created: string[] = [];
    for (let index = 0; index < 7; index++) created.push(await api.createSession());
    const pages = await readPages(api, '/v1/sessions?limit=3');
    expect(pages.map((page) => page.length)).toEqual([3, 3, 1]);
    expect(new Set(pages.flat())).toEqual(new Set(created));
    expect(pages.flat()).toHaveLength(7);
    const times = await api.db.selectFrom('sessions').select('created_at').orderBy('created_at', 'desc').execute();
    const listed = await api.call('GET', '/v1/sessions');
    expect((listed.body['sessions'] as { createdAt: string }[]).map((session) => session.createdAt)).toEqual(
      times.map((row) => row.created_at.toISOString()),
    );
  });

  test('of one parent are its children, and are not sought among others', async () => {
    await using api = await startTestApi();
    const [parent, child] = [await api.createSession(), await api.createSession()];
    await api.createSession();
    const uuidOf = (id: string) => parseId('session', id) ?? '';
    await api.db
      .updateTable('sessions')
      .set({ parent_session_id: uuidOf(parent), root_session_id: uuidOf(parent), depth: 1 })
      .where('id', '=', uuidOf(child))
      .execute();
    const { body } = await api.call('GET', `/v1/sessions?parent=${parent}`);
    expect(body['sessions']).toMatchObject([{ id: child, parentSessionId: parent, depth: 1 }]);
    expect((await api.call('GET', `/v1/sessions?parent=${child}`)).body['sessions']).toEqual([]);
    for (const [query, path] of [
      ['parent=ses_1', 'parent'],
      [`parent=${parent}&q=x`, 'parent'],
    ]) {
      const refused = await api.call('GET', `/v1/sessions?${query}`);
      expect(refused).toMatchObject({ status: 400, body: { errors: [{ path }] } });
    }
  });

  test('a page that ends the list has no cursor, even when it is full', async () => {
    await using api = await startTestApi();
    for (let index = 0; index < 3; index++) await api.createSession();
    expect((await api.call('GET', '/v1/sessions?limit=3')).body['nextCursor']).toBeNull();
  });

  test('sessions of the same moment are not lost between pages', async () => {
    await using api = await startTestApi();
    for (let index = 0; index < 5; index++) await api.createSession();
    await api.db.updateTable('sessions').set({ created_at: '2026-01-02T03:04:05.678Z' }).execute();
    expect((await readPages(api, '/v1/sessions?limit=2')).flat()).toHaveLength(5);
  });

  test('keeps those with a status and with labels', async () => {
    await using api = await startTestApi();
    const blue = await api.createSession({ metadata: { team: 'blue', tier: '1' } });
    await api.createSession({ metadata: { team: 'red', tier: '1' } });
    await api.send(blue, 'hello');
    const idsOf = async (query: string) => (await readPages(api, `/v1/sessions?limit=50&${query}`)).flat();
    expect(await idsOf('metadata.team=blue')).toEqual([blue]);
    expect(await idsOf('metadata.team=red&metadata.tier=2')).toEqual([]);
    expect(await idsOf('metadata.tier=1')).toHaveLength(2);
    expect(await idsOf('status=busy')).toEqual([blue]);
  });
});

async function readPages(api: TestApi, path: string): Promise<string[][]> {
  const pages: string[][] = [];
  let cursor: unknown = '';
  while (cursor !== null) {
    const { status, body } = await api.call('GET', cursor === '' ? path : `${path}&cursor=${cursor}`);
    expect(status).toBe(200);
    pages.push((body['sessions'] as { id: string }[]).map((session) => session.id));
    cursor = body['nextCursor'];
  }
  return pages;
}
