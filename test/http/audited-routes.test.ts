import { expect, test } from 'vitest';
import { SCOPES } from '../../src/domain/access.ts';
import { AUDITED_ACTIONS, type AuditedAction } from '../../src/domain/audit.ts';
import { formatId, parseId } from '../../src/domain/ids.ts';
import { newId } from '../../src/platform/new-id.ts';
import { createTestKey } from '../support/keys.ts';
import { readRoutes } from './documented-routes.ts';
import { askStep, claimJob } from './play-worker.ts';
import { startTestApi, type TestApi } from './test-api.ts';

type Call = (method: string, path: string, body?: object) => Promise<Readonly<{ status: number; body: object }>>;

/** What a request needs, as the ids in its path. */
type Ready = (call: Call, api: TestApi) => Promise<readonly string[]>;

const idOf = ({ body }: Awaited<ReturnType<Call>>, field = 'id'): string =>
  String((body as Record<string, unknown>)[field]);

const session: Ready = async (call) => [idOf(await call('POST', '/v1/sessions', { agent: 'coder' }))];
const run: Ready = async (call, api) => {
  const [id = ''] = await session(call, api);
  return [idOf(await call('POST', `/v1/sessions/${id}/messages`, { content: 'go' }), 'runId')];
};
const waiting: Ready = async (call, api) => {
  const [id = ''] = await session(call, api);
  await call('POST', `/v1/sessions/${id}/messages`, { content: 'go' });
  return [id, idOf(await call('POST', `/v1/sessions/${id}/messages`, { content: 'more' }), 'messageId')];
};
const cancelled: Ready = async (call, api) => {
  const [id = ''] = await session(call, api);
  await call('POST', `/v1/sessions/${id}/messages`, { content: 'go' });
  await call('POST', `/v1/sessions/${id}/cancel`, {});
  return [id];
};
const asking: Ready = async (call, api) => {
  const [runId = ''] = await run(call, api);
  const [asked] = await askStep(api.db, await claimJob(api.db, api.added.at(-1)), [
    { kind: 'approval', toolName: 'a' },
  ]);
  return [runId, asked?.id ?? ''];
};
const WEBHOOK = { url: 'https://hooks.example/', secret: 'x'.repeat(32) };
const webhook: Ready = async (call) => [idOf(await call('POST', '/v1/webhooks', WEBHOOK))];
const delivery: Ready = async (call, api) => {
  const [id = ''] = await webhook(call, api);
  const sent = idOf(await call('POST', `/v1/webhooks/${id}/test`));
  await api.db
    .updateTable('webhook_deliveries')
    .set({ state: 'failed' })
    .where('id', '=', parseId('delivery', sent) ?? '')
    .execute();
  return [sent];
};
const otherKey: Ready = async (call) => [idOf(await call('POST', '/v1/keys', { name: 'ci' }))];
const SCHEDULE = { agent: 'coder', cron: '0 0 1 1 *', content: 'go' };
const schedule: Ready = async (call) => [idOf(await call('POST', '/v1/schedules', SCHEDULE))];
const paused: Ready = async (call, api) => {
  const ids = await schedule(call, api);
  await call('POST', `/v1/schedules/${ids[0]}/pause`, {});
  return ids;
};
/** A session with a message to go back to, whose run has ended. */
const withHistory: Ready = async (call, api) => {
  const [id = ''] = await cancelled(call, api);
  await api.db
    .insertInto('messages')
    .values([1, 2].map((seq) => ({ ...{ id: newId(), session_id: parseId('session', id) ?? '', seq }, ...USER })))
    .execute();
  await api.db
    .updateTable('sessions')
    .set({ message_seq: 2 })
    .where('id', '=', parseId('session', id) ?? '')
    .execute();
  return [id];
};
const USER = { role: 'user' as const, finished_at: new Date(), metadata: '{}' };
const firstMessage = async (api: TestApi) => {
  const row = await api.db
    .selectFrom('messages')
    .select('id')
    .where('seq', '=', 1)
    .orderBy('created_at', 'desc')
    .executeTakeFirst();
  return formatId('message', row?.id ?? newId());
};
const reverted: Ready = async (call, api) => {
  const ids = await withHistory(call, api);
  await call('POST', `/v1/sessions/${ids[0]}/revert`, { toMessage: await firstMessage(api) });
  return ids;
};
const nothing: Ready = async () => [];

type Audited = Readonly<{
  ready: Ready;
  action: AuditedAction;
  body?: object | ((api: TestApi) => Promise<object>);
}>;

const AUDITED: Readonly<Record<string, Audited>> = {
  'PATCH /v1/sessions/{id}': { ready: session, body: { expiresAt: '2099-01-01T00:00:00Z' }, action: 'session:update' },
  'DELETE /v1/sessions/{id}': { ready: session, action: 'session:delete' },
  'POST /v1/sessions/{id}/agent': { ready: session, body: { agent: 'clerk' }, action: 'session:agent' },
  'POST /v1/sessions/{id}/repin': { ready: session, body: {}, action: 'session:repin' },
  'POST /v1/sessions/{id}/revert': {
    ready: withHistory,
    body: async (api) => ({ toMessage: await firstMessage(api) }),
    action: 'session:revert',
  },
  'POST /v1/sessions/{id}/unrevert': { ready: reverted, body: {}, action: 'session:unrevert' },
  'POST /v1/sessions/{id}/fork': { ready: session, body: {}, action: 'session:fork' },
  'PATCH /v1/sessions/{id}/queue/{messageId}': { ready: waiting, body: { content: 'else' }, action: 'message:change' },
  'DELETE /v1/sessions/{id}/queue/{messageId}': { ready: waiting, action: 'message:remove' },
  'DELETE /v1/sessions/{id}/queue': { ready: waiting, action: 'queue:clear' },
  'POST /v1/sessions/{id}/resume': { ready: cancelled, body: {}, action: 'session:resume' },
  'POST /v1/sessions/{id}/cancel': { ready: session, body: {}, action: 'session:cancel' },
  'POST /v1/sessions/{id}/compact': { ready: session, action: 'session:compact' },
  'POST /v1/sessions/{id}/prune': { ready: session, action: 'session:prune' },
  'POST /v1/sessions/{id}/tokens': { ready: session, body: {}, action: 'session:token' },
  'POST /v1/keys': { ready: nothing, body: { name: 'ci' }, action: 'key:create' },
  'POST /v1/keys/{id}/revoke': { ready: otherKey, action: 'key:revoke' },
  'POST /v1/runs/{id}/cancel': { ready: run, action: 'run:cancel' },
  'POST /v1/runs/{id}/tool-calls/{toolCallId}': {
    ready: asking,
    body: { decision: 'deny' },
    action: 'tool-call:answer',
  },
  'POST /v1/webhooks': { ready: nothing, body: WEBHOOK, action: 'webhook:create' },
  'PUT /v1/webhooks/{id}': { ready: async () => ['key:shop'], body: WEBHOOK, action: 'webhook:create' },
  'PATCH /v1/webhooks/{id}': { ready: webhook, body: { agent: 'coder' }, action: 'webhook:update' },
  'DELETE /v1/webhooks/{id}': { ready: webhook, action: 'webhook:delete' },
  'POST /v1/webhooks/{id}/test': { ready: webhook, action: 'webhook:test' },
  'POST /v1/webhook-deliveries/{id}/redeliver': { ready: delivery, action: 'webhook:redeliver' },
  'POST /v1/schedules': { ready: nothing, body: SCHEDULE, action: 'schedule:create' },
  'PUT /v1/schedules/{id}': { ready: async () => ['key:daily'], body: SCHEDULE, action: 'schedule:create' },
  'PATCH /v1/schedules/{id}': { ready: schedule, body: { content: 'else' }, action: 'schedule:update' },
  'DELETE /v1/schedules/{id}': { ready: schedule, action: 'schedule:delete' },
  'POST /v1/schedules/{id}/pause': { ready: schedule, body: {}, action: 'schedule:pause' },
  'POST /v1/schedules/{id}/resume': { ready: paused, action: 'schedule:resume' },
  'POST /v1/schedules/{id}/run': { ready: schedule, action: 'schedule:run' },
};

/** Changing routes without an entry, and why. */
const EXCEPTIONS: Readonly<Record<string, string>> = {
  'POST /v1/sessions': 'only adds a session, which lists show with its time',
  'POST /v1/sessions/{id}/messages': 'what is sent stands in the transcript; limits and webhooks have entries: below',
  'POST /v1/blobs': 'only adds a file, which nothing refers to yet',
  'POST /api/chat': 'as a message; what it cancels, answers, limits or resumes has an entry',
  'POST /api/chat/{id}/stop': 'has the entry of a cancelled session where anything is cancelled: audit.test.ts',
  'POST /v1/chat/completions': 'as a message',
  'POST /v1/responses': 'as a message',
  'POST /v1/responses/compact': 'has the entry of a compacted session: response-compaction.test.ts',
  'POST /v1/responses/input_tokens': 'counts, and stores nothing',
  'DELETE /v1/responses/{id}': 'has the entry of a deleted session: response-routes.test.ts',
  'POST /v1/responses/{id}/cancel': 'has the entry of a cancelled run, as POST /v1/runs/{id}/cancel',
  'POST /v1/hooks/{name}': 'has no key: its signature is checked, and what it sends stands in the transcript',
};

test('every route that changes something leaves an entry with its key, or stands in the list of exceptions', async () => {
  await using api = await startTestApi();
  const key = await createTestKey(api.db, 'default', SCOPES);
  const call: Call = (method, path, body) => api.call(method, path, body, key.headers);
  const { body: document } = await api.call('GET', '/openapi.json', undefined, key.headers);
  const changing = readRoutes(document).filter(
    ({ method, path }) => method !== 'GET' && method !== 'HEAD' && path.startsWith('/'),
  );
  const unlisted = changing
    .map(({ method, path }) => `${method} ${path}`)
    .filter((name) => !(name in AUDITED || name in EXCEPTIONS));
  expect(unlisted).toEqual([]);
  const known = changing.map(({ method, path }) => `${method} ${path}`);
  expect(Object.keys(EXCEPTIONS).filter((name) => !known.includes(name))).toEqual([]);
  for (const [name, { ready, action, body }] of Object.entries(AUDITED)) {
    const [method = '', pattern = ''] = name.split(' ');
    expect(
      changing.map((route) => `${route.method} ${route.path}`),
      name,
    ).toContain(name);
    const ids = [...(await ready(call, api))];
    const path = pattern.replaceAll(/\{\w+\}/g, () => ids.shift() ?? '');
    const given = typeof body === 'function' ? await body(api) : body;
    await api.db.deleteFrom('audit_log').execute();
    const answer = await call(method, path, given);
    expect({ name, ok: answer.status < 300, ...(answer.status >= 300 && { answer }) }).toEqual({ name, ok: true });
    const entries = await api.db.selectFrom('audit_log').select(['action', 'key_id']).execute();
    expect({ name, entries }).toEqual({ name, entries: [{ action, key_id: key.id }] });
  }
});

test('a message that names limits or a webhook leaves an entry, and no other does', async () => {
  await using api = await startTestApi();
  const key = await createTestKey(api.db);
  const { body } = await api.call('POST', '/v1/sessions', { agent: 'coder' }, key.headers);
  const send = (fields: object) =>
    api.call('POST', `/v1/sessions/${body['id']}/messages`, { content: 'go', ...fields }, key.headers);
  for (const fields of [{}, { limits: { maxSteps: 500 } }, { webhook: WEBHOOK }]) {
    expect((await send(fields)).status).toBe(202);
  }
  const entries = await api.db.selectFrom('audit_log').select('action').orderBy('seq').execute();
  expect(entries).toEqual([{ action: 'message:limits' }, { action: 'message:webhook' }]);
});

test('an action has one name', () => {
  expect(AUDITED_ACTIONS).toEqual([...new Set(AUDITED_ACTIONS)].toSorted());
});
