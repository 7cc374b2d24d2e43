import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { formatCallId, formatId } from '../../src/domain/ids.ts';
import { newId } from '../../src/platform/new-id.ts';
import { startTestApi, type TestApi } from './test-api.ts';

const LARGE = 'x'.repeat(100_000);
const session = formatId('session', newId());
const run = formatId('run', newId());
const call = formatCallId(newId(), 0);

describe('a large body', () => {
  let api: TestApi;
  beforeAll(async () => {
    api = await startTestApi();
  });
  afterAll(() => api[Symbol.asyncDispose]());

  test.each([
    ['POST', '/v1/sessions', { agent: 'nobody' }, 422, 'nobody'],
    ['PATCH', `/v1/sessions/${session}`, {}, 404, session],
    ['POST', `/v1/sessions/${session}/messages`, {}, 404, session],
    ['POST', `/v1/runs/${run}/tool-calls/${call}`, {}, 404, run],
    ['POST', '/v1/chat/completions', { model: 'nobody' }, 404, 'nobody'],
  ])('is not looked into where what it is about is not there: %s %s', async (method, path, fields, status, named) => {
    const answer = await api.call(method, path, { ...fields, unknown: LARGE });
    expect(answer.status).toBe(status);
    expect(answer.body['detail']).toContain(named);
  });

  test('is not looked into for a call that its run has not', async () => {
    const { body } = await api.send(await api.createSession(), 'hello');
    const path = `/v1/runs/${body['runId']}/tool-calls/${call}`;
    const { status, body: refusal } = await api.call('POST', path, { unknown: LARGE });
    expect([status, refusal['detail']]).toEqual([404, expect.stringContaining(call)]);
  });

  test('has its first mistakes named, like any other', async () => {
    const id = await api.createSession();
    const parts = Array.from({ length: 250 }, () => ({ type: 'text', text: 5 }));
    const { status, body } = await api.call('POST', `/v1/sessions/${id}/messages`, { content: parts, title: LARGE });
    expect(status).toBe(400);
    expect(body.errors).toHaveLength(20);
    expect(body.errors).toContainEqual({ path: 'content.0.text', message: expect.stringContaining('expected string') });
  });

  test('that is no JSON is refused as that', async () => {
    const { status, body } = await api.call('POST', '/v1/sessions', `{"agent":"${LARGE}`);
    expect([status, body['detail']]).toEqual([400, 'The body is not valid JSON']);
  });
});
