import { sql } from 'kysely';
import { describe, expect, test } from 'vitest';
import { SCOPES } from '../../src/domain/access.ts';
import { formatId } from '../../src/domain/ids.ts';
import { appendAudit, listAudit } from '../../src/store/around/audit.ts';
import { createTestKey } from '../support/keys.ts';
import { askStep, claimJob } from './play-worker.ts';
import { startTestApi, testDeps } from './test-api.ts';

const isSuccess = (status: number): boolean => status < 300;

describe('the audit log', () => {
  test('says which key cancelled, removed, cleared and deleted what, and nothing of what was said', async () => {
    await using api = await startTestApi();
    const key = await createTestKey(api.db, 'acme', SCOPES);
    const call = (method: string, path: string, body?: object) => api.call(method, path, body, key.headers);
    const created = await call('POST', '/v1/sessions', { agent: 'coder', title: 'a secret title' });
    const session = `/v1/sessions/${created.body['id']}`;
    const send = async () => (await call('POST', `${session}/messages`, { content: 'a secret text' })).body;
    const { runId } = await send();
    const waiting = [await send(), await send()].map((message) => String(message['messageId']));
    const acts: [string, string, string][] = [
      ['DELETE', `${session}/queue/${waiting[0]}`, 'message:remove'],
      ['DELETE', `${session}/queue`, 'queue:clear'],
      ['POST', `/v1/runs/${runId}/cancel`, 'run:cancel'],
      ['POST', `${session}/cancel`, 'session:cancel'],
      ['DELETE', session, 'session:delete'],
    ];
    for (const [method, path] of acts) expect((await call(method, path)).status, path).toBeLessThan(300);
    const { status, body, text } = await call('GET', '/v1/audit');
    expect(status).toBe(200);
    const keyId = formatId('key', key.id);
    expect(body['entries']).toMatchObject(acts.map(([, target, action]) => ({ action, target, keyId })).toReversed());
    expect(text).not.toContain('secret');
    expect(text).not.toContain(key.secret.slice(10));
  });

  test('names by its id what a message interrupted and what a page stopped, and no name of a client', async () => {
    await using api = await startTestApi();
    const chat = { id: 'a secret name', agent: 'coder' };
    const say = async (text: string, more: object = {}) => {
      const parts = [{ type: 'text', text }];
      const headers = { 'content-type': 'application/json' };
      const body = JSON.stringify({ ...chat, ...more, message: { id: text, role: 'user', parts } });
      const response = await fetch(`${api.url}/api/chat`, { method: 'POST', headers, body });
      await response.body?.cancel();
    };
    await say('one');
    await say('two', { delivery: 'interrupt' });
    const { id = '' } = (await api.db.selectFrom('sessions').select('id').executeTakeFirst()) ?? {};
    const session = formatId('session', id);
    await api.call('POST', `/v1/sessions/${session}/messages`, { content: 'three', delivery: 'interrupt' });
    expect((await api.call('POST', `/api/chat/${encodeURIComponent(chat.id)}/stop`)).status).toBe(200);
    const { body } = await api.call('GET', '/v1/audit');
    const interrupted = { action: 'run:cancel', target: expect.stringMatching(/^\/v1\/runs\/run_\w+\/cancel$/) };
    const stopped = { action: 'session:cancel', target: `/v1/sessions/${session}/cancel` };
    expect(body['entries']).toMatchObject([stopped, interrupted, interrupted]);
  });

  test('is of the same transaction as what it says: an act that cannot be written down has not happened', async () => {
    await using api = await startTestApi();
    const state = async () => {
      const { rows } = await sql`
        select (select jsonb_agg(jsonb_build_array(id, status, active_run_id, event_seq) order by id) from sessions) as sessions,
          (select jsonb_agg(jsonb_build_array(id, status, cancel_requested_at) order by id) from runs) as runs,
          (select jsonb_agg(jsonb_build_array(id, consumed_message_seq) order by id) from inbox) as inbox,
          (select jsonb_agg(jsonb_build_array(message_id, idx, state, answer) order by message_id, idx) from parts) as parts`.execute(
        api.db,
      );
      return rows[0];
    };
    const [session, asking, idle] = [await api.createSession(), await api.createSession(), await api.createSession()];
    const { runId } = (await api.send(session, 'go')).body;
    const waiting = (await api.send(session, 'more')).body['messageId'];
    const asked = (await api.send(asking, 'go')).body['runId'];
    const [call] = await askStep(api.db, await claimJob(api.db, api.added[1]), [{ kind: 'approval', toolName: 'a' }]);
    const chat = {
      id: 'page',
      agent: 'coder',
      message: { id: 'm', role: 'user', parts: [{ type: 'text', text: 'go' }] },
    };
    const headers = { 'content-type': 'application/json' };
    const page = await fetch(`${api.url}/api/chat`, { method: 'POST', headers, body: JSON.stringify(chat) });
    await page.body?.cancel();
    const acts: [string, string, object?][] = [
      ['DELETE', `/v1/sessions/${session}/queue/${waiting}`],
      ['DELETE', `/v1/sessions/${session}/queue`],
      ['POST', `/v1/runs/${asked}/tool-calls/${call?.id}`, { decision: 'deny' }],
      ['POST', `/v1/runs/${runId}/cancel`],
      ['POST', `/v1/sessions/${asking}/cancel`],
      ['POST', '/api/chat/page/stop'],
      ['DELETE', `/v1/sessions/${idle}`],
    ];
    await sql`alter table audit_log add constraint nothing check (false) not valid`.execute(api.db);
    const before = await state();
    for (const [method, path, body] of acts) {
      expect([path, (await api.call(method, path, body)).status]).toEqual([path, 500]);
      expect([path, await state()]).toEqual([path, before]);
    }
    await sql`alter table audit_log drop constraint nothing`.execute(api.db);
    for (const [method, path, body] of acts) {
      expect([path, (await api.call(method, path, body)).status]).toEqual([path, expect.toSatisfy(isSuccess)]);
    }
    expect((await api.call('GET', '/v1/audit')).body['entries']).toHaveLength(acts.length);
  });

  test('has no entry of what was refused, looked at or only sent', async () => {
    await using api = await startTestApi();
    const session = await api.createSession();
    await api.send(session, 'hello');
    await api.call('GET', `/v1/sessions/${session}/queue`);
    expect((await api.call('DELETE', `/v1/sessions/${session}`)).status).toBe(409);
    expect((await api.call('POST', `/v1/runs/run_${'0'.repeat(32)}/cancel`)).status).toBe(404);
    expect((await api.call('GET', '/v1/audit')).body).toEqual({ entries: [], next: null });
  });

  test('is read page by page, by keys with the scope admin alone, each for its tenant', async () => {
    await using api = await startTestApi();
    const [admin, other] = [await createTestKey(api.db, 'a', SCOPES), await createTestKey(api.db, 'b', SCOPES)];
    const reader = await createTestKey(api.db, 'a', ['read', 'write', 'operator']);
    const created = await api.call('POST', '/v1/sessions', { agent: 'coder' }, admin.headers);
    for (let n = 0; n < 5; n++) {
      await api.call('POST', `/v1/sessions/${created.body['id']}/cancel`, undefined, admin.headers);
    }
    const page = async (query: string, { headers } = admin) =>
      (await api.call('GET', `/v1/audit?${query}`, undefined, headers)).body as {
        entries: { seq: number }[];
        next: number | null;
      };
    const first = await page('limit=3');
    const second = await page(`limit=3&before=${first.next}`);
    expect([first.entries.length, second.entries.length, second.next]).toEqual([3, 2, null]);
    const seqs = [...first.entries, ...second.entries].map(({ seq }) => seq);
    expect(seqs).toEqual(seqs.toSorted((a, b) => b - a));
    expect((await page('', other)).entries).toEqual([]);
    expect((await api.call('GET', '/v1/audit', undefined, reader.headers)).status).toBe(403);
  });

  test('is written before the answer is given: without it there is none', async () => {
    await using api = await startTestApi();
    const session = await api.createSession();
    await api.db.schema.alterTable('audit_log').renameTo('audit_log_away').execute();
    expect((await api.call('POST', `/v1/sessions/${session}/cancel`)).status).toBe(500);
    await api.db.schema.alterTable('audit_log_away').renameTo('audit_log').execute();
    expect((await api.call('POST', `/v1/sessions/${session}/cancel`)).status).toBe(200);
    expect(await listAudit(api.db, { tenantId: 'default', limit: 10 })).toHaveLength(1);
  });

  test('keeps a page’s request whatever its path says', async () => {
    await using api = await testDeps();
    const target = `/admin/\u0000\ud800${'x'.repeat(1_000)}`;
    await appendAudit(api.db, { tenantId: 'default', keyId: null, action: 'admin:request', target });
    expect((await listAudit(api.db, { tenantId: 'default', limit: 1 }))[0]?.target).toMatch(
      /^\/admin\/\ufffd\ufffdx+$/,
    );
  });
});
