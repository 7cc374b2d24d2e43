import { createHmac } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { IncomingHook } from '../../src/agents/incoming-hooks.ts';
import { parseExactly } from '../../src/domain/exact-json.ts';
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

/** What `sign` of the libraries makes of the secret and the body of this file. */
const BY_STANDARD = 'v1,Wsy9ROBt8r69okCQGyNCbs6MFOuS0/vb7N8n563WUy8=';
const BY_STANDARD_RAW = 'v1,JH1jPUgTzbOQvPZ7ELQNp2g4hemG84xx0GcxDCIQ028=';
const BY_OCTOKIT = 'sha256=af8b48c66b53c0e46aa26a716fb828e5d65756183b389275233916ff6f076612';
const ID_AND_TIME = { id: 'msg_1', timestamp: at } as const;
const headersOf = (prefix: string, signature: string) =>
  Object.fromEntries(Object.entries({ ...ID_AND_TIME, signature }).map(([key, value]) => [`${prefix}-${key}`, value]));
const sum = sign(SECRET, text);

describe('a signature in the way that others write it', () => {
  const standard = hookOf({ verify: 'standard' });
  test.each([
    ['of standardwebhooks', standard, headersOf('webhook', BY_STANDARD)],
    ['of svix', standard, headersOf('svix', `v1a,xyz ${BY_STANDARD}`)],
    ['of svix beside a wrong one', standard, { ...headersOf('webhook', 'v1,AAAA'), ...headersOf('svix', BY_STANDARD) }],
    [
      'with a secret that lost its prefix',
      hookOf({ ...standard, secret: SECRET.slice(6) }),
      headersOf('webhook', BY_STANDARD),
    ],
    [
      'with that secret as it is',
      hookOf({ ...standard, secret: SECRET.slice(6) }),
      headersOf('webhook', BY_STANDARD_RAW),
    ],
  ])('is right: %s', (_, hook, headers) => {
    expect(verifiedId(hook, { headers, bytes, nowMs })).toBe('msg_1');
    expect(verifiedId(hook, { headers, bytes: Buffer.from(`${text} `), nowMs })).toBeNull();
  });

  test.each([
    ['of another version', headersOf('webhook', BY_STANDARD.replace('v1', 'v2'))],
    ['with a public key', headersOf('svix', BY_STANDARD.replace('v1', 'v1a'))],
    ['without a version', headersOf('webhook', BY_STANDARD.slice(3))],
    ['of two senders together', { ...headersOf('svix', 'v1,AAAA'), 'webhook-signature': BY_STANDARD }],
  ])('is wrong, although it has the right sum: %s', (_, headers) => {
    expect(verifiedId(standard, { headers, bytes, nowMs })).toBeNull();
  });

  const hmac = hookOf({ verify: 'hmac', signatureHeader: 'x-sig', idHeader: 'x-id' });
  const isRight = (signature: string) =>
    verifiedId(hmac, { headers: { 'x-sig': signature, 'x-id': 'i' }, bytes, nowMs }) === 'i';
  const [hex, base64] = [sum.toString('hex'), sum.toString('base64')];

  test.each([
    hex,
    hex.toUpperCase(),
    base64,
    sum.toString('base64url'),
    BY_OCTOKIT,
    `SHA256=${hex.toUpperCase()}`,
    `sha256=${base64}`,
    `sha-256=${hex}`,
    `hmac-sha256=${hex}`,
    `v1=${hex}`,
    `v1=${'0'.repeat(64)},v1=${hex}`,
    `sha1=00, sha256=${hex}`,
  ])('is right in hex or Base64, alone or with its name: %s', (signature) => {
    expect(isRight(signature)).toBe(true);
  });

  test.each([
    '',
    `v2,${hex}`,
    `v2=${hex}`,
    `v2=${base64}`,
    `v1,${hex}`,
    `sha1=${hex}`,
    `sha512=${hex}`,
    `xsha256=${hex}`,
    `${hex} ${hex}`,
    `!${base64}`,
    `sha256=${hex}0`,
    `sha256=${hex.slice(0, -2)}`,
  ])('is wrong with a foreign name or another length: %s', (signature) => {
    expect(isRight(signature)).toBe(false);
  });
});

test('a template names values, and nothing that they hold is a place again', () => {
  const values = { body: { a: { b: '{body.c}' }, c: 'secret', n: 5, l: [1] }, headers: { 'x-y': 'h' } };
  expect(fillTemplate('{body.a.b} {body.n} {body.l} {body.l.0} {headers.x-y} {body.none} {other}', values)).toBe(
    '{body.c} 5 [1] 1 h  {other}',
  );
  const written = parseExactly('{"id":12345678901234567890,"b":1,"7":2}');
  expect(fillTemplate('{body.id} {body} {body.id.rawJSON}', { body: written, headers: {} })).toBe(
    '12345678901234567890 {"id":12345678901234567890,"b":1,"7":2} ',
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
    const wrong = await post('orders', text, { ...signed(text, 'a'), 'x-sig': 'no' });
    expect(wrong).toMatchObject({ status: 401, body: { detail: expect.stringContaining('x-sig') } });
    expect(wrong.headers.get('www-authenticate')).toBe('Signature realm="baton", header="x-sig"');
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

  const FORM = 'application/x-www-form-urlencoded';
  const form = (json: string) => `payload=${encodeURIComponent(json)}`;
  const BIG = '{"customer":"17","text":12345678901234567890}';

  test.each([
    ['a form', FORM, form(text), 'order: It broke.'],
    [
      'a form with spaces and other fields',
      `${FORM}; charset=utf-8`,
      `a=1&${form('\uFEFF{"customer":"17","text":"a b"}').replaceAll('%20', '+')}&b=2`,
      'order: a b',
    ],
    ['no content type', '', text, 'order: It broke.'],
    ['JSON of an event', 'application/cloudevents+json', text, 'order: It broke.'],
    ['a long number', 'application/json', BIG, 'order: 12345678901234567890'],
    ['a long number in a form', FORM, form(BIG), 'order: 12345678901234567890'],
  ])('takes %s', async (_, type, body, content) => {
    await using api = await startTestApi({ hooks });
    const headers = { ...signed(body, 'i-1'), 'content-type': type };
    const sent = await fetch(`${api.url}/v1/hooks/orders`, { method: 'POST', headers, body: Buffer.from(body) });
    expect(sent.status, await sent.text()).toBe(202);
    expect(await api.db.selectFrom('inbox').select('content').execute()).toEqual([
      { content: [{ type: 'text', text: content }] },
    ]);
  });

  test.each([
    [
      'another type',
      'text/plain',
      text,
      415,
      /application\/json, or application\/x-www-form-urlencoded .* sends text\/plain/,
    ],
    ['parts', 'multipart/form-data; boundary=x', text, 415, /sends multipart\/form-data$/],
    ['a form without its field', FORM, 'a=1&xpayload={}', 400, /body\.payload: missing/],
    ['a form with something else in its field', FORM, 'payload=1%7D', 400, /body\.payload: not valid JSON/],
    ['a form with broken letters', FORM, 'payload=%FF', 400, /body\.payload: not percent-encoded/],
    ['a form with too many values', FORM, form(`[${'1,'.repeat(MAX_JSON_VALUES)}1]`), 413, /JSON values/],
  ])('refuses %s in words, and only to who signs', async (_, type, body, status, words) => {
    await using api = await startTestApi({ hooks });
    const headers = { ...signed(body, 'i-1'), 'content-type': type };
    const refused = await api.call('POST', '/v1/hooks/orders', body, headers);
    expect({ status: refused.status, detail: refused.body['detail'] }).toEqual({
      status,
      detail: expect.stringMatching(words),
    });
    expect((await api.call('POST', '/v1/hooks/orders', body, { ...headers, 'x-sig': 'no' })).status).toBe(401);
  });

  test("answers GitHub's ping, and begins nothing for it", async () => {
    const github = new Map([['orders', hookOf({ verify: 'github' })]]);
    await using api = await startTestApi({ hooks: github });
    const ping = '{"zen":"Keep it logically awesome.","hook_id":1}';
    const post = (body: string, type: string, changes: Record<string, string> = {}) =>
      api.call('POST', '/v1/hooks/orders', body, {
        'content-type': type,
        'x-github-event': 'ping',
        'x-github-delivery': 'd-1',
        'x-hub-signature-256': `sha256=${sign(SECRET, body).toString('hex')}`,
        ...changes,
      });
    expect(await post(ping, 'application/json')).toMatchObject({ status: 200, body: { pong: true } });
    expect(await post(form(ping), FORM)).toMatchObject({ status: 200 });
    expect((await post(ping, 'application/json', { 'x-hub-signature-256': 'no' })).status).toBe(401);
    expect((await post('zen', 'application/json')).status).toBe(400);
    expect(await api.db.selectFrom('sessions').select('id').execute()).toEqual([]);
    expect((await post(text, 'application/json', { 'x-github-event': 'issues' })).status).toBe(202);
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

  test('a message that interrupts a run stands in the audit log', async () => {
    const eager = new Map([
      ['orders', hookOf({ verify: 'hmac', signatureHeader: 'x-sig', idHeader: 'x-id', delivery: 'interrupt' })],
    ]);
    await using api = await startTestApi({ hooks: eager });
    for (const id of ['a', 'b']) {
      expect((await api.call('POST', '/v1/hooks/orders', text, signed(text, id))).status).toBe(202);
    }
    const entries = await api.db.selectFrom('audit_log').select(['action', 'key_id', 'target']).execute();
    expect(entries).toEqual([
      { action: 'run:cancel', key_id: null, target: expect.stringMatching(/^\/v1\/runs\/run_/) },
    ]);
  });
});
