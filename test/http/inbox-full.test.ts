import { describe, expect, test } from 'vitest';
import type { InboxLimits } from '../../src/domain/run/inbox-limits.ts';
import { claimJob } from './play-worker.ts';
import { startTestApi } from './test-api.ts';

const inboxLimits: InboxLimits = { messages: 2, bytes: 1_000 };

/** A session whose run is at work, with as many messages behind it as may wait. */
async function fullSession() {
  const api = await startTestApi({ inboxLimits });
  const session = await api.createSession();
  await api.send(session, 'Go');
  await claimJob(api.db, api.added[0]);
  const waiting = [await api.send(session, '1'), await api.send(session, '2')];
  return { api, session, waiting, [Symbol.asyncDispose]: api[Symbol.asyncDispose] };
}

const refused = { status: 429, body: { code: 'inbox_full', detail: expect.stringContaining('resume the session') } };

describe('a session in which as much waits as may', () => {
  test('takes no message more', async () => {
    await using full = await fullSession();
    const { api, session, waiting } = full;
    expect(waiting.map(({ status }) => status)).toEqual([202, 202]);
    expect(await api.send(session, '3')).toMatchObject(refused);
    expect(await api.send(session, '3', { delivery: 'followup' })).toMatchObject(refused);
  });

  test('takes none of a chat', async () => {
    await using full = await fullSession();
    const { api, session } = full;
    const message = { id: 'm1', role: 'user', parts: [{ type: 'text', text: '3' }] };
    expect(await api.call('POST', '/api/chat', { id: session, message })).toMatchObject(refused);
  });

  test('takes no completion', async () => {
    await using full = await fullSession();
    const { api, session } = full;
    const body = { model: 'coder', messages: [{ role: 'user', content: '3' }] };
    const answer = await api.call('POST', '/v1/chat/completions', body, { 'x-session-id': session });
    expect(answer).toMatchObject(refused);
    expect(answer.body['error']).toMatchObject({ code: 'rate_limit_exceeded', type: 'rate_limit_error' });
  });

  test('takes no larger content of a message that waits', async () => {
    await using full = await fullSession();
    const { api, session, waiting } = full;
    const path = `/v1/sessions/${session}/queue/${waiting[0]?.body['messageId']}`;
    expect(await api.call('PATCH', path, { content: 'x'.repeat(1_000) })).toMatchObject(refused);
    expect(await api.call('PATCH', path, { content: 'x'.repeat(800) })).toMatchObject({ status: 200 });
  });
});
