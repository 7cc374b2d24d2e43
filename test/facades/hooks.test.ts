import { createHmac } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { IncomingHook } from '../../src/agents/incoming-hooks.ts';
import { MAX_JSON_VALUES } from '../../src/domain/tunables.ts';
import { fillTemplate } from '../../src/domain/webhooks/template.ts';
import { verifiedId } from '../../src/facades/hooks/verify.ts';
import { createIntake } from '../../src/http/intake.ts';
import { createWrongKeys } from '../../src/http/middleware/wrong-keys.ts';
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
  maxBytes: 262_144,
} as const;
const hookOf = (more: Pick<IncomingHook, 'verify'> & Partial<IncomingHook>): IncomingHook => ({ ...BASE, ...more });

const text = '{"customer":"17","text":"It broke.","id":"evt_9"}';
const bytes = Buffer.from(text);
const nowMs = 1_800_000_000_000;
const at = String(nowMs / 1000);
const sign = (key: string | Buffer, signed: string | Buffer) => createHmac('sha256', key).update(signed).digest();
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
    expect(verifiedId(hook, { headers, bytes, nowMs })).toBe(id);
    expect(verifiedId(hook, { headers, bytes: Buffer.from(`${text} `), nowMs })).toBeNull();
    expect(verifiedId({ ...hook, secret: SECRET.replace('Mf', 'Nf') }, { headers, bytes, nowMs })).toBeNull();
    expect(verifiedId(hook, { headers: {}, bytes, nowMs })).toBeNull();
    const isTimed = hook.verify === 'standard' || hook.verify === 'stripe';
    for (const late of [301_000, -301_000]) {
      expect(verifiedId(hook, { headers, bytes, nowMs: nowMs + late })).toBe(isTimed ? null : id);
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

  test('checks the signature of the bytes that came, before anything else is made of them', async () => {
    await using api = await startTestApi({ hooks });
    const send = (body: string, headers: Record<string, string>) => api.call('POST', '/v1/hooks/orders', body, headers);
    const marked = `\uFEFF${text}`;
    expect((await send(marked, signed(marked, 'a'))).status).toBe(202);
    const wide = `[${'1,'.repeat(MAX_JSON_VALUES)}1]`;
    expect((await send(wide, { ...signed(wide, 'a'), 'x-sig': 'no' })).status).toBe(401);
    expect((await send(wide, signed(wide, 'a'))).status).toBe(413);
    const notText = Buffer.from([0x22, 0xff, 0x22]);
    const headers = { ...signed('', 'a'), 'x-sig': sign(SECRET, notText).toString('hex') };
    expect((await fetch(`${api.url}/v1/hooks/orders`, { method: 'POST', body: notText, headers })).status).toBe(400);
  });

  test('slows down an address that sends wrong signatures, and holds no body meanwhile', async () => {
    const intake = createIntake({ tenants: 1e6, tenant: 1e6, strangers: 1e6, stranger: 1e6 });
    const waited: number[] = [];
    const wrongKeys = createWrongKeys({
      nowMs: () => 0,
      async wait(durationMs) {
        waited.push(durationMs, intake.heldBytes());
      },
    });
    await using api = await startTestApi({ hooks, wrongKeys, intake });
    const wrong = { ...signed(text, 'a'), 'x-sig': 'no' };
    for (let nth = 0; nth < 61; nth++) {
      expect((await api.call('POST', '/v1/hooks/orders', text, wrong)).status).toBe(401);
    }
    expect(waited).toEqual([1_000, 0]);
    expect((await api.call('POST', '/v1/hooks/orders', text, signed(text, 'a'))).status).toBe(202);
    expect(waited).toEqual([1_000, 0]);
  });
});
