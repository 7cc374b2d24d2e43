import { describe, expect, test } from 'vitest';
import { answerStep, claimJob } from './play-worker.ts';
import { startTestApi } from './test-api.ts';

const url = 'https://hooks.example.com/baton';
const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';

describe('/v1/webhooks', () => {
  test('creates, lists, reads, changes and deletes; it never shows the secret, and each change is audited', async () => {
    await using api = await startTestApi();
    const created = await api.call('POST', '/v1/webhooks', { url, secret, events: ['run:failed', 'run:failed'] });
    expect(created.status).toBe(201);
    const { id } = created.body;
    expect(created.headers.get('location')).toBe(`/v1/webhooks/${id}`);
    expect(created.body).toMatchObject({ url, events: ['run:failed'], agent: null, enabled: true, disabledFor: null });
    const list = await api.call('GET', '/v1/webhooks');
    expect(list.body['webhooks']).toEqual([created.body]);
    const changed = await api.call('PATCH', `/v1/webhooks/${id}`, { enabled: false, agent: 'coder' });
    expect(changed.body).toMatchObject({ enabled: false, disabledFor: 'request', agent: 'coder', url });
    expect((await api.call('POST', `/v1/webhooks/${id}/test`)).status).toBe(409);
    const read = await api.call('GET', `/v1/webhooks/${id}`);
    expect(read.body).toEqual(changed.body);
    const gone = await api.call('DELETE', `/v1/webhooks/${id}`);
    expect(gone.status).toBe(204);
    expect((await api.call('GET', `/v1/webhooks/${id}`)).status).toBe(404);
    for (const answer of [created, list, changed, read]) expect(answer.text).not.toContain('MfKQ9r8G');
    const { body } = await api.call('GET', '/v1/audit');
    expect(body['entries']).toMatchObject([
      { action: 'webhook:delete' },
      { action: 'webhook:update' },
      { action: 'webhook:create', target: `/v1/webhooks/${id}` },
    ]);
  });

  test('is created once by the same key', async () => {
    await using api = await startTestApi();
    const create = () => api.call('POST', '/v1/webhooks', { url, secret }, { 'idempotency-key': 'once' });
    const [first, second] = [await create(), await create()];
    expect(second.body).toEqual(first.body);
    expect(first.body['events']).toHaveLength(5);
  });
});

describe('/v1/webhook-deliveries', () => {
  test('lists tests and runs, newest first, and sends them again', async () => {
    await using api = await startTestApi();
    const { id: webhookId } = (await api.call('POST', '/v1/webhooks', { url, secret })).body;
    const tried = await api.call('POST', `/v1/webhooks/${webhookId}/test`);
    expect(tried).toMatchObject({
      status: 202,
      body: { type: 'webhook:test', state: 'waiting', attempts: 0, webhookId },
    });
    const own = { url: 'https://other.example.com/', secret };
    const sent = await api.send(await api.createSession(), 'hello', { webhook: own });
    await answerStep(api.db, await claimJob(api.db, api.added.at(-1)), 'Done.');
    const { runId } = sent.body;
    const page = await api.call('GET', `/v1/webhook-deliveries?runId=${runId}`);
    expect(page.body['deliveries']).toHaveLength(2);
    expect(page.body['deliveries']).toContainEqual(expect.objectContaining({ webhookId: null, url: own.url, runId }));
    const first = await api.call('GET', '/v1/webhook-deliveries?limit=2');
    const rest = await api.call('GET', `/v1/webhook-deliveries?limit=2&cursor=${first.body['nextCursor']}`);
    expect(rest.body).toEqual({ deliveries: [tried.body], nextCursor: null });
    const whole = await api.call('GET', `/v1/webhook-deliveries/${tried.body['id']}`);
    expect(JSON.parse(String(whole.body['body']))).toMatchObject({ id: tried.body['id'], data: { webhookId } });
    expect(whole.text + page.text).not.toContain('MfKQ9r8G');
    const again = await api.call('POST', `/v1/webhook-deliveries/${tried.body['id']}/redeliver`);
    expect(again).toMatchObject({ status: 202, body: { state: 'waiting' } });
  });

  test('a message of the same key with another webhook is another request', async () => {
    await using api = await startTestApi();
    const session = await api.createSession();
    const send = (path: string) =>
      api.call(
        'POST',
        `/v1/sessions/${session}/messages`,
        { content: 'x', webhook: { url: url + path, secret } },
        { 'idempotency-key': 'k' },
      );
    expect((await send('/a')).status).toBe(202);
    expect((await send('/b')).status).toBe(409);
  });
});
