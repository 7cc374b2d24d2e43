import { createHmac } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { parseId } from '../../src/domain/ids.ts';
import { DEFAULT_INBOX_LIMITS } from '../../src/domain/run/inbox-limits.ts';
import { newId } from '../../src/platform/new-id.ts';
import { acceptMessage } from '../../src/store/changes/inbox.ts';
import { NO_QUOTA } from '../../src/store/session/quota.ts';
import { PNG_BASE64 } from '../support/png.ts';
import { answerStep, claimJob, failStep } from './play-worker.ts';
import { startTestApi, type TestApi } from './test-api.ts';

type Body = Record<string, unknown>;

async function nameOf(api: TestApi, session: string): Promise<unknown> {
  const { body } = await api.call('GET', `/v1/sessions/${session}`);
  const listed = (await api.call('GET', `/v1/sessions?ids=${session}`)).body['sessions'];
  expect(listed).toEqual([expect.objectContaining({ name: body['name'], title: body['title'] })]);
  return body['name'];
}

const runsOf = async (api: TestApi) => (await api.call('GET', '/v1/runs')).body['runs'] as Body[];

const answerNewest = async (api: TestApi) =>
  answerStep(api.db, await claimJob(api.db, api.added.at(-1)), 'The harbor is blue.');

describe('the name of a session', () => {
  test('is its agent or key before the first message, then its first words, and its title where it has one', async () => {
    await using api = await startTestApi();
    const session = await api.createSession();
    expect(await nameOf(api, session)).toBe('coder');
    expect(await nameOf(api, await api.createSession({ key: 'order-7' }))).toBe('order-7');
    await api.send(session, '## Refund **order-7**\n\nIt came late.');
    expect(await nameOf(api, session)).toBe('Refund order-7 It came late.');
    await api.send(session, 'And order-8.');
    await answerNewest(api);
    expect(await nameOf(api, session)).toBe('Refund order-7 It came late.');
    await api.call('PATCH', `/v1/sessions/${session}`, { title: 'Late parcels' });
    expect(await nameOf(api, session)).toBe('Late parcels');
    await api.call('PATCH', `/v1/sessions/${session}`, { title: null });
    expect(await nameOf(api, session)).toBe('Refund order-7 It came late.');
    const fork = await api.call('POST', `/v1/sessions/${session}/fork`, {});
    expect(fork.body).toMatchObject({ name: 'Refund order-7 It came late.', title: null });
  });

  test('is made of the files of a message without words', async () => {
    await using api = await startTestApi();
    const session = await api.createSession();
    const file = { type: 'file', data: PNG_BASE64 };
    const content = [{ ...file, filename: 'bill.png' }, file];
    expect((await api.call('POST', `/v1/sessions/${session}/messages`, { content })).status).toBe(202);
    expect(await nameOf(api, session)).toBe('bill.png, image/png');
  });

  test('forgets the words of a message that is changed or removed before a run takes it up', async () => {
    await using api = await startTestApi();
    const session = await api.createSession();
    const first = (await api.send(session, 'My password is 1234')).body['messageId'];
    await api.send(session, 'Hello');
    await api.call('PATCH', `/v1/sessions/${session}/queue/${first}`, { content: 'Never mind' });
    expect(await nameOf(api, session)).toBe('Never mind');
    await api.call('DELETE', `/v1/sessions/${session}/queue/${first}`);
    expect(await nameOf(api, session)).toBe('Hello');
    await api.call('DELETE', `/v1/sessions/${session}/queue`);
    expect(await nameOf(api, session)).toBe('coder');
  });

  test('is there for conversations of other protocols, with the words that began them', async () => {
    await using api = await startTestApi();
    const messages = [
      { role: 'user', content: 'What is a harbor?' },
      { role: 'assistant', content: 'A place for ships.' },
      { role: 'user', content: 'And a port?' },
    ];
    const leave = AbortSignal.timeout(20_000);
    const post = async (path: string, body: object) => {
      const at = api.added.length;
      const headers = { 'content-type': 'application/json' };
      const answer = fetch(api.url + path, { method: 'POST', headers, body: JSON.stringify(body), signal: leave });
      await expect.poll(() => api.added.length).toBeGreaterThan(at);
      await answerNewest(api);
      await (await answer).text();
    };
    await post('/v1/chat/completions', { model: 'coder', messages });
    await post('/v1/responses', { model: 'coder', input: 'Which ships are in?' });
    const part = { type: 'text', text: 'Paint the harbor' };
    await post('/api/chat', { id: 'c1', agent: 'coder', messages: [{ id: 'm1', role: 'user', parts: [part] }] });
    const { body } = await api.call('GET', '/v1/sessions');
    const names = (body['sessions'] as Body[]).map(({ name }) => name);
    expect(names).toEqual(['Paint the harbor', 'Which ships are in?', 'What is a harbor?']);
    expect((await runsOf(api)).map(({ sessionName }) => sessionName)).toEqual(names);
  });
});

describe('a run in a list', () => {
  test('says its session, its agent and what began it', async () => {
    const secret = 'a secret of sixteen bytes';
    const hook = {
      ...{
        agent: 'clerk',
        tenant: 'default',
        secretEnv: 'X',
        secret,
        session: '{body.id}',
        content: 'Alarm {body.id}',
      },
      ...({ verify: 'github', delivery: 'followup', maxBytes: 262_144 } as const),
    };
    await using api = await startTestApi({ hooks: new Map([['alarms', hook]]) });
    const session = await api.createSession({ title: 'Build' });
    await api.send(session, 'Build it');
    await answerNewest(api);
    await api.call('POST', `/v1/sessions/${session}/compact`);
    const schedule = { agent: 'coder', cron: '0 9 * * *', timezone: 'UTC', content: 'Good morning' };
    const { id } = (await api.call('POST', '/v1/schedules', schedule)).body;
    await api.call('POST', `/v1/schedules/${id}/run`);
    const alarm = '{"id":"17"}';
    const signature = `sha256=${createHmac('sha256', secret).update(alarm).digest('hex')}`;
    const signed = { 'x-hub-signature-256': signature, 'x-github-delivery': 'd-1' };
    expect((await api.call('POST', '/v1/hooks/alarms', alarm, signed)).status).toBe(202);
    expect(await runsOf(api)).toMatchObject([
      { trigger: 'hook', agent: 'clerk', sessionName: 'Alarm 17', maxSteps: 7 },
      { trigger: 'schedule', agent: 'coder', sessionName: 'Good morning', maxSteps: 100 },
      { trigger: 'maintenance', agent: 'coder', sessionName: 'Build', maxSteps: null },
      { trigger: 'message', agent: 'coder', sessionName: 'Build', maxSteps: 100 },
    ]);
  });

  test('says of one without a message of a caller what began it', async () => {
    await using api = await startTestApi();
    const session = await api.createSession();
    await api.send(session, 'Go');
    await failStep(api.db, await claimJob(api.db, api.added.at(-1)), { code: 'auth', message: 'No.' });
    // Nobody's message: it goes on where the run before has failed.
    await api.call('POST', `/v1/sessions/${session}/resume`);
    await answerNewest(api);
    await acceptMessage(api.db, {
      ...{ tenantId: 'default', sessionId: parseId('session', session) ?? '', messageId: newId(), runId: newId() },
      ...{ content: [{ type: 'text', text: 'A child has ended.' }], origin: 'system' },
      ...{ quota: NO_QUOTA, inboxLimits: DEFAULT_INBOX_LIMITS },
    });
    expect((await runsOf(api)).map(({ trigger }) => trigger)).toEqual(['notice', 'resume', 'message']);
  });

  test('keeps its cause when it is cancelled, and its message goes to the run that goes on', async () => {
    await using api = await startTestApi();
    const session = await api.createSession();
    const cancelled = await api.send(session, 'Go');
    await api.call('POST', `/v1/sessions/${session}/cancel`);
    await api.call('POST', `/v1/sessions/${session}/resume`);
    expect((await runsOf(api)).map(({ trigger }) => trigger)).toEqual(['message', 'message']);
    // A promised run, cancelled before it begins.
    await claimJob(api.db, api.added.at(-1));
    const promised = await api.send(session, 'And then', { delivery: 'followup' });
    expect((await api.call('POST', `/v1/runs/${promised.body['runId']}/cancel`)).status).toBe(200);
    await api.call('POST', `/v1/sessions/${session}/cancel`);
    await api.call('POST', `/v1/sessions/${session}/resume`);
    for (const { body } of [cancelled, promised]) {
      expect((await api.call('GET', `/v1/runs/${body['runId']}`)).body).toMatchObject({
        ...{ status: 'cancelled', trigger: 'message' },
      });
    }
  });

  test('has the limit of steps that holds, and its session has the steps of all its runs', async () => {
    await using api = await startTestApi();
    const session = await api.createSession();
    for (const text of ['One', 'Two', 'Three']) {
      const { body } = await api.send(session, text);
      await answerNewest(api);
      expect((await api.call('GET', `/v1/runs/${body['runId']}`)).body).toMatchObject({ steps: 1, maxSteps: 100 });
    }
    const { sessions } = (await api.call('GET', '/v1/sessions')).body;
    expect(sessions).toMatchObject([
      { steps: 3, usage: { totalTokens: 51 }, overview: { lastRun: { steps: 1, maxSteps: 100 } } },
    ]);
  });
});
