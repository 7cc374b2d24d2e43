import { createHmac } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { IncomingHook } from '../../src/agents/incoming-hooks.ts';
import { fillTemplate } from '../../src/domain/webhooks/template.ts';
import { verifiedId } from '../../src/facades/hooks/verify.ts';
import { startTestApi } from '../http/test-api.ts';
import { createTestKey } from '../support/keys.ts';

const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const BASE = {
  agent: 'coder',
  tenant: 'default',
  secretEnv: 'X',
  secret: SECRET,
  session: '{body.customer}',
  content: '{headers.x-event}: {body.text}',
  delivery: 'followup',
} as const;
const hookOf = (more: Pick<IncomingHook, 'verify'> & Partial<IncomingHook>): IncomingHook => ({ ...BASE, ...more });

const text = '{"customer":"17","text":"It broke.","id":"evt_9"}';
const nowMs = 1_800_000_000_000;
const at = String(nowMs / 1000);
const sign = (key: string | Buffer, signed: string) => createHmac('sha256', key).update(signed).digest();
const standardKey = Buffer.from(SECRET.slice(6), 'base64');

/** The headers of a right request of each kind, and the id that it has. */
const RIGHT = [
  [
    hookOf({ verify: 'standard' }),
    {
      'webhook-id': 'msg_1',
      'webhook-timestamp': at,
      'webhook-signature': `v1,AAAA v1,${sign(standardKey, `msg_1.${at}.${text}`).toString('base64')}`,
    },
    'msg_1',
  ],
  [
    hookOf({ verify: 'github' }),
    { 'x-hub-signature-256': `sha256=${sign(SECRET, text).toString('hex')}`, 'x-github-delivery': 'd-1' },
    'd-1',
  ],
  [
    hookOf({ verify: 'stripe' }),
    { 'stripe-signature': `t=${at},v1=00,v1=${sign(SECRET, `${at}.${text}`).toString('hex')}` },
    'evt_9',
  ],
  [
    hookOf({ verify: 'hmac', signatureHeader: 'x-sig', idHeader: 'x-id' }),
    { 'x-sig': sign(SECRET, text).toString('base64'), 'x-id': 'i-1' },
    'i-1',
  ],
] as const;

describe('a signature', () => {
  test.each(RIGHT)('of $verify is checked', (hook, headers, id) => {
    expect(verifiedId(hook, { headers, text, nowMs })).toBe(id);
    expect(verifiedId(hook, { headers, text: `${text} `, nowMs })).toBeNull();
    expect(verifiedId({ ...hook, secret: SECRET.replace('Mf', 'Nf') }, { headers, text, nowMs })).toBeNull();
    expect(verifiedId(hook, { headers: {}, text, nowMs })).toBeNull();
    const isTimed = hook.verify === 'standard' || hook.verify === 'stripe';
    for (const late of [301_000, -301_000]) {
      expect(verifiedId(hook, { headers, text, nowMs: nowMs + late })).toBe(isTimed ? null : id);
    }
  });
});

test('a template names values, and nothing that they hold is a place again', () => {
  const values = { body: { a: { b: '{body.c}' }, c: 'secret', n: 5, l: [1] }, headers: { 'x-y': 'h' } };
  expect(fillTemplate('{body.a.b} {body.n} {body.l} {body.l.0} {headers.x-y} {body.none} {other}', values)).toBe(
    '{body.c} 5 [1] 1 h  {other}',
  );
  expect(fillTemplate('{body.__proto__}{body.constructor}{body.a.toString}', values)).toBe('');
});

describe('POST /v1/hooks/{name}', () => {
  const signed = (body: string, id: string) => ({
    'content-type': 'application/json',
    'x-event': 'order',
    'x-sig': sign(SECRET, body).toString('hex'),
    'x-id': id,
  });
  const hooks = new Map([['orders', hookOf({ verify: 'hmac', signatureHeader: 'x-sig', idHeader: 'x-id' })]]);

  test('is a message, once for each id of the sender, in one session for each customer; no key is needed', async () => {
    await using api = await startTestApi({ hooks });
    await createTestKey(api.db);
    const send = (body: string, id: string) => api.call('POST', '/v1/hooks/orders', body, signed(body, id));
    const first = await send(text, 'i-1');
    expect(first.status).toBe(202);
    expect((await send(text, 'i-1')).body).toMatchObject({ messageId: first.body['messageId'] });
    await send(text, 'i-2');
    await send(text.replace('17', '18'), 'i-3');
    const inbox = await api.db.selectFrom('inbox').select(['session_id', 'content']).execute();
    expect(inbox).toHaveLength(3);
    expect(new Set(inbox.map(({ session_id }) => session_id)).size).toBe(2);
    expect(inbox[0]?.content).toEqual([{ type: 'text', text: 'order: It broke.' }]);
  });

  test('refuses a wrong signature, an unknown hook, and a body without what it needs', async () => {
    await using api = await startTestApi({ hooks });
    const post = (name: string, body: string, headers: Record<string, string>) =>
      api.call('POST', `/v1/hooks/${name}`, body, headers);
    expect((await post('orders', text, { ...signed(text, 'a'), 'x-sig': 'no' })).status).toBe(401);
    expect((await post('others', text, signed(text, 'a'))).status).toBe(404);
    for (const body of ['{}', '{"customer":"1"', '[]']) {
      expect((await post('orders', body, signed(body, 'a'))).status, body).toBe(400);
    }
    expect(await api.db.selectFrom('sessions').select('id').execute()).toEqual([]);
  });
});
