import { afterAll, beforeAll, expect, it } from 'vitest';
import { startTestApi, type TestApi } from './test-api.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api[Symbol.asyncDispose]());

const WEBHOOK = { url: 'https://hooks.example.com/', secret: 's'.repeat(32) };
const SCHEDULE = { agent: 'coder', cron: '0 9 * * *', content: 'Good morning' };
const message = (fields: object) => ({ content: 'Go', ...fields });

it.each<[string, string, object, string]>([
  ['a schema that is none', 'messages', message({ output: { schema: { type: 'text' } } }), 'output.schema'],
  ['a schema that is a text', 'messages', message({ output: { schema: 'number' } }), 'output.schema'],
  [
    'a schema that is too large',
    'messages',
    message({ output: { schema: { type: 'object', description: 'x'.repeat(70_000) } } }),
    'output.schema',
  ],
  [
    'a webhook of a message to a private address',
    'messages',
    message({ webhook: { ...WEBHOOK, url: 'http://10.0.0.1/' } }),
    'webhook.url',
  ],
  [
    'a secret of a message that is too short',
    'messages',
    message({ webhook: { ...WEBHOOK, secret: 'short' } }),
    'webhook.secret',
  ],
  ['a webhook to a private address', '/v1/webhooks', { ...WEBHOOK, url: 'http://169.254.169.254/' }, 'url'],
  ['a webhook to this machine', '/v1/webhooks', { ...WEBHOOK, url: 'http://localhost:4400/' }, 'url'],
  ['a secret that is too short', '/v1/webhooks', { ...WEBHOOK, secret: 'whsec_c2hvcnQ=' }, 'secret'],
  ['a cron that cannot be read', '/v1/schedules', { ...SCHEDULE, cron: 'every day' }, 'cron'],
  ['a cron that never comes', '/v1/schedules', { ...SCHEDULE, cron: '0 0 30 2 *' }, 'cron'],
  ['a zone that does not exist', '/v1/schedules', { ...SCHEDULE, timezone: 'Mars/Base' }, 'timezone'],
  ['a revert to no message', 'revert', { toMessage: 'the first' }, 'toMessage'],
])('%s is refused, and the refusal names the field', async (_what, path, body, field) => {
  const session = await api.createSession();
  const target = path.startsWith('/') ? path : `/v1/sessions/${session}/${path}`;
  const refused = await api.call('POST', target, body);
  expect(refused).toMatchObject({
    status: 400,
    body: { code: expect.any(String), errors: [{ message: expect.any(String) }] },
  });
  expect(refused.body.errors?.[0]?.path.startsWith(field), JSON.stringify(refused.body)).toBe(true);
});
