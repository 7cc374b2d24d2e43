import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type HttpToolConfig, toolSourceSchema } from '../../src/agents/tool-sources.ts';
import { NoRoom, type TakeRoom } from '../../src/platform/arriving-bytes.ts';
import type { OutboundPolicy } from '../../src/tools/http/guarded-request.ts';
import { createHttpTool } from '../../src/tools/http/http-tool.ts';
import { signRequest } from '../../src/tools/http/sign-request.ts';
import { contextOf } from './workspace-fixture.ts';

type Answer = (response: ServerResponse, request: IncomingMessage) => void;

const received: { request: IncomingMessage; body: unknown }[] = [];
let answer: Answer = (response) => response.end();
const server = createServer((request, response) => {
  void json(request).then((body) => {
    received.push({ request, body });
    answer(response, request);
  });
});
let port = 0;
beforeAll(async () => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  port = (server.address() as AddressInfo).port;
});
afterAll(() => server.close());

const environment = { TOKEN: 'Bearer abc', SECRET: `whsec_${Buffer.from('key').toString('base64')}` };
const LOCAL: OutboundPolicy = { allowPrivate: true, allowedHosts: [] };

function toolAt(host: string, changes: Partial<HttpToolConfig> = {}, policy = LOCAL) {
  const http = {
    name: 'search',
    description: 'Searches.',
    url: `http://${host}:${port}/search?kind=all`,
    inputSchema: { type: 'object' },
    ...changes,
  };
  const source = toolSourceSchema.parse({ http });
  if (typeof source === 'string' || source.http === undefined) throw new Error('no HTTP tool');
  return createHttpTool(source.http, environment, policy, 'tools.0.http');
}

const context = contextOf(new AbortController().signal);

async function callWith(next: Answer, changes: Partial<HttpToolConfig> = {}): Promise<unknown> {
  received.length = 0;
  answer = next;
  return toolAt('127.0.0.1', changes).execute({ q: 'ä' }, context);
}

const reply =
  (status: number, contentType: string, body: string | Buffer): Answer =>
  (response) =>
    response.writeHead(status, { 'content-type': contentType }).end(body);

const IMAGE = {
  type: 'content',
  value: [{ type: 'file', mediaType: 'image/png', data: { type: 'data', data: 'AAEC' } }],
};

describe('an HTTP tool', () => {
  it('sends input and ids, with the call key as idempotency key, and signed', async () => {
    const result = await callWith(reply(200, 'application/json; charset=utf-8', '{"hits":[1]}'), {
      headersFromEnv: { authorization: 'TOKEN' },
      signingSecretEnv: 'SECRET',
    });
    expect(result).toEqual({ hits: [1] });
    const [{ request, body } = { request: undefined, body: null }] = received;
    const ids = { callKey: 'msg_1:0', tenantId: 'acme', sessionId: 'ses_1', runId: 'run_1', toolCallId: 'call_1' };
    expect(body).toEqual({ input: { q: 'ä' }, ...ids });
    expect(request).toMatchObject({ method: 'POST', url: '/search?kind=all' });
    expect(request?.headers).toMatchObject({
      authorization: 'Bearer abc',
      'content-type': 'application/json',
      'idempotency-key': 'msg_1:0',
      'webhook-id': 'msg_1:0',
    });
    const timestamp = String(request?.headers['webhook-timestamp']);
    const signed = createHmac('sha256', 'key')
      .update(`msg_1:0.${timestamp}.${JSON.stringify(body)}`)
      .digest('base64');
    expect(request?.headers['webhook-signature']).toBe(`v1,${signed}`);
  });

  it.each([
    ['text', 200, 'text/plain', 'found', 'found'],
    ['nothing', 204, '', '', ''],
    ['JSON that is none', 200, 'application/json', '{', '{'],
    ['an image', 200, 'image/png', Buffer.from('AAEC', 'base64'), IMAGE],
    ['an archive', 200, 'application/zip', Buffer.alloc(12), '[application/zip, 12 bytes, not shown]'],
    ['problem JSON', 200, 'application/problem+json', '{"a":1}', { a: 1 }],
  ])('returns %s', async (_what, status, contentType, body, result) => {
    expect(await callWith(reply(status, contentType, body))).toEqual(result);
  });

  it('reads no more than it may, and says so', async () => {
    const result = await callWith(reply(200, 'text/plain', 'x'.repeat(100_000)), { maxResponseBytes: 1_000 });
    expect(result).toBe(`${'x'.repeat(1_000)}\n[the answer was cut after 1000 bytes]`);
  });

  it.each([
    ['a refusal, with its body', 422, 'text/plain', 'no such index', 'HTTP 422: no such index'],
    ['a failure', 500, 'text/html', '', 'HTTP 500'],
  ])('fails with %s', async (_what, status, contentType, body, message) => {
    await expect(callWith(reply(status, contentType, body))).rejects.toThrow(message);
  });

  it('follows no redirect', async () => {
    const redirect: Answer = (response) => response.writeHead(307, { location: '/elsewhere' }).end();
    await expect(callWith(redirect)).rejects.toThrow('redirects (HTTP 307): redirects are not followed');
    expect(received.length).toBe(1);
  });

  it('ends when its time is up or its call is stopped: the outcome is unknown then', async () => {
    await expect(callWith(() => undefined, { timeoutMs: 50 })).rejects.toThrow(
      /did not answer within 50 ms\. The outcome of the call is unknown/,
    );
    const stop = new AbortController();
    answer = () => stop.abort(new Error('cancelled'));
    const stopped = toolAt('127.0.0.1').execute({}, contextOf(stop.signal));
    await expect(stopped).rejects.toThrow(/it was stopped.*outcome of the call is unknown/);
  });

  it('says that the outcome is unknown when the connection breaks after the request, and that it was not made before', async () => {
    await expect(callWith((_response, request) => request.socket.destroy())).rejects.toThrow(/outcome.*unknown/);
    const unheard = toolAt('127.0.0.1', { url: 'http://127.0.0.1:1/' });
    await expect(unheard.execute({}, context)).rejects.toThrow('(ECONNREFUSED). The call was not made.');
  });

  it('needs the variables that it names', () => {
    expect(() => toolAt('127.0.0.1', { headersFromEnv: { authorization: 'TOKN' } })).toThrow(
      'tools.0.http.headersFromEnv.authorization: the environment variable TOKN is not set',
    );
    expect(() => toolAt('127.0.0.1', { signingSecretEnv: 'GONE' })).toThrow('tools.0.http.signingSecretEnv: ');
  });
});

describe('an address that is not public', () => {
  const strict: OutboundPolicy = { allowPrivate: false, allowedHosts: [] };

  it.each([
    '127.0.0.1',
    '127.1',
    '2130706433',
    '0x7f000001',
    '0x7f.0.0.1',
    '017700000001',
    '0177.0.0.01',
    '0.0.0.0',
    '0',
    '10.1.2.3',
    '169.254.169.254',
    '100.64.0.1',
    '１２７.0.0.1',
    'localhost',
    'LOCALHOST',
    '[::1]',
    '[::]',
    '[::ffff:127.0.0.1]',
    '[0:0:0:0:0:ffff:7f00:1]',
    '[64:ff9b::7f00:1]',
    '[fd00:ec2::254]',
  ])('is not connected to, written as %s', async (host) => {
    received.length = 0;
    await expect(toolAt(host, {}, strict).execute({}, context)).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining('is not a public one: the request was not sent'),
    });
    expect(received).toEqual([]);
  });

  it.each([
    ['only that', ['10.0.0.1']],
    ['that among public ones', ['8.8.8.8', '10.0.0.1']],
  ])('is not connected to where a name has %s', async (_what, addresses) => {
    const resolve = async () => addresses.map((address) => ({ address, family: 4 }));
    const tool = toolAt('tools.example', {}, { ...strict, resolve });
    await expect(tool.execute({}, context)).rejects.toThrow('The address of tools.example is not a public one');
  });

  it('may be that of a host that is allowed by name', async () => {
    answer = reply(200, 'text/plain', 'inside');
    const resolve = async () => [{ address: '127.0.0.1', family: 4 }];
    const policy = { allowPrivate: false, allowedHosts: ['tools.example'], resolve };
    expect(await toolAt('Tools.example', {}, policy).execute({}, context)).toBe('inside');
    await expect(toolAt('other.example', {}, policy).execute({}, context)).rejects.toThrow('not a public one');
  });

  it('may be that of one port of a host that is allowed by name', async () => {
    answer = reply(200, 'text/plain', 'inside');
    const resolve = async () => [{ address: '127.0.0.1', family: 4 }];
    const at = (port: string) => ({ allowPrivate: false, allowedHosts: [`tools.example:${port}`], resolve });
    expect(await toolAt('tools.example', {}, at(String(port))).execute({}, context)).toBe('inside');
    await expect(toolAt('tools.example', {}, at('1')).execute({}, context)).rejects.toThrow('not a public one');
  });

  it('cannot be slipped in between the look and the connection: a name is resolved once', async () => {
    answer = reply(200, 'text/plain', 'the first');
    const answers = ['127.0.0.1', '127.0.0.2', '127.0.0.3'];
    const resolve = async () => [{ address: answers.shift() ?? '', family: 4 }];
    expect(await toolAt('rebinding.example', {}, { ...LOCAL, resolve }).execute({}, context)).toBe('the first');
    expect(answers).toEqual(['127.0.0.2', '127.0.0.3']);
  });
});

describe('the signature', () => {
  it('is that of Standard Webhooks', () => {
    // The example of https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
    const signed = signRequest(
      'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
      'msg_p5jXN8AQM9LWM0D4loKWxJek',
      1_614_265_330_999,
      '{"test": 2432232314}',
    );
    expect(signed).toEqual({
      'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
      'webhook-timestamp': '1614265330',
      'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
    });
  });

  it('takes any text as a secret', () => {
    expect(signRequest('plain', 'id', 0, '')['webhook-signature']).toBe(
      `v1,${createHmac('sha256', 'plain').update('id.0.').digest('base64')}`,
    );
  });
});

it('waits for the room of a large answer, and says that there was none', async () => {
  const asked: [number, number][] = [];
  const takeRoom: TakeRoom = async (bytes, mostBytes) => {
    asked.push([bytes, mostBytes]);
    if (bytes > 100_000) throw new NoRoom(null);
  };
  answer = reply(200, 'text/plain', 'x'.repeat(1_000_000));
  const tool = toolAt('127.0.0.1', { maxResponseBytes: 2_000_000 });
  await expect(tool.execute({}, { ...context, takeRoom })).rejects.toThrow(
    'The endpoint answered, but this worker had no room for the answer beside those of other calls: try again in a ' +
      'moment. The outcome of the call is unknown',
  );
  expect(asked.at(-1)?.[0]).toBeGreaterThan(100_000);
  expect(new Set(asked.map(([, most]) => most))).toEqual(new Set([2_000_000]));
});
