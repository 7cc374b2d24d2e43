import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { trace } from '@opentelemetry/api';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createModels } from '../../src/model/providers.ts';
import { streamAnswer } from '../../src/model/stream-answer.ts';
import { patientFetch } from '../../src/platform/patient-fetch.ts';
import { checkProxies, proxyFor } from '../../src/platform/proxy.ts';
import { startTelemetry } from '../../src/platform/telemetry.ts';
import { sendGuarded } from '../../src/tools/http/guarded-request.ts';
import { freePort } from '../support/free-port.ts';
import { type HttpProxy, startHttpProxy } from '../support/http-proxy.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { createMcpFixture } from '../tools/mcp-fixture.ts';

const VARIABLES = ['HTTPS_PROXY', 'HTTP_PROXY', 'NO_PROXY', 'https_proxy', 'http_proxy', 'no_proxy'];

const stack = { current: new AsyncDisposableStack() };
let proxy: HttpProxy;
const before = Object.fromEntries(VARIABLES.map((name) => [name, process.env[name]]));

beforeEach(async () => {
  stack.current = new AsyncDisposableStack();
  proxy = stack.current.use(await startHttpProxy());
  for (const name of VARIABLES) delete process.env[name];
  process.env['HTTP_PROXY'] = `http://127.0.0.1:${proxy.port}`;
  process.env['HTTPS_PROXY'] = `http://127.0.0.1:${proxy.port}`;
});
afterEach(async () => {
  for (const name of VARIABLES) delete process.env[name];
  for (const [name, value] of Object.entries(before)) if (value !== undefined) process.env[name] = value;
  await stack.current.disposeAsync();
});

/** Answers to everybody, by a name that only the proxy resolves. */
async function startTarget(server: Server = createServer()): Promise<string> {
  server.on('request', (_request, response) =>
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}'),
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  stack.current.defer(() => {
    server.close();
    server.closeAllConnections();
  });
  return `target.invalid:${(server.address() as AddressInfo).port}`;
}

const guarded = (url: string, usesProxy: boolean, allowPrivate = false) =>
  sendGuarded(
    {
      url: new URL(url),
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{}',
      maxResponseBytes: 1_000,
      signal: AbortSignal.timeout(10_000),
    },
    { allowPrivate, allowedHosts: [], usesProxy },
  );

describe('a proxy of the environment', () => {
  it('is used for spans', async () => {
    const target = await startTarget();
    const telemetry = await startTelemetry(`http://${target}`);
    trace.getTracer('test').startSpan('asked').end();
    await telemetry[Symbol.asyncDispose]();
    trace.disable();
    expect(proxy.seen).toEqual([`POST http://${target}/v1/traces`]);
  });

  it('is used by providers and MCP servers', async () => {
    const target = await startTarget();
    const provider = { kind: 'openai-compatible', name: 'far', baseUrl: `http://${target}/v1`, headers: {} } as const;
    const { model } = createModels({ providers: [{ ...provider, background: 'never' }] })('far/m');
    const prompt = { messages: [{ role: 'user' as const, content: 'Hi' }] };
    const settings = { maxOutputTokens: 10, providerOptions: {} };
    await streamAnswer(
      { model, prompt, tools: [], settings, signal: AbortSignal.timeout(10_000) },
      { onPart: () => undefined, onEnd: () => undefined },
    ).catch(() => undefined);
    await using fixture = createMcpFixture({ far: { url: `http://${target}/mcp` } });
    await fixture.pin([{ mcp: 'far' }]).catch(() => undefined);
    expect(proxy.seen).toContain(`POST http://${target}/v1/chat/completions`);
    expect(proxy.seen).toContain(`POST http://${target}/mcp`);
  });

  it('is a tunnel for addresses with TLS', async (context) => {
    await using folder = await temporaryFolder();
    const [key, cert] = ['key.pem', 'cert.pem'].map((name) => path.join(folder.path, name));
    const names = ['-subj', '/CN=target.invalid', '-addext', 'subjectAltName=DNS:target.invalid'];
    const made = [
      'req',
      '-x509',
      '-newkey',
      'rsa:2048',
      '-nodes',
      '-keyout',
      key ?? '',
      '-out',
      cert ?? '',
      '-days',
      '1',
    ];
    if (spawnSync('openssl', [...made, ...names]).status !== 0) return context.skip('there is no openssl');
    const read = (file = '') => readFileSync(file, 'utf8');
    const trusted = getCACertificates('default');
    setDefaultCACertificates([...trusted, read(cert)]);
    stack.current.defer(() => setDefaultCACertificates(trusted));
    const target = await startTarget(createTlsServer({ key: read(key), cert: read(cert) }));
    expect((await patientFetch(`https://${target}/`)).status).toBe(200);
    expect(proxy.seen).toEqual([`CONNECT ${target}`]);
  });

  it('is used by tools over HTTP, and never for an address that is private', async () => {
    const target = await startTarget();
    expect((await guarded(`http://${target}/run`, true)).status).toBe(200);
    expect(proxy.seen).toEqual([`POST http://${target}/run`]);
    const refused = { code: 'invalid_request' };
    await expect(guarded('http://10.0.0.1/run', true)).rejects.toMatchObject(refused);
    await expect(guarded(`http://localhost:${proxy.port}/run`, true)).rejects.toMatchObject(refused);
    expect(proxy.seen).toHaveLength(1);
  });

  it('is never used by webhooks: their addresses are checked and pinned here', async () => {
    const target = await startTarget();
    await expect(guarded(`http://${target}/hook`, false)).rejects.toThrow('ENOTFOUND');
    expect(proxy.seen).toEqual([]);
  });

  it('that cannot do it is named, with what to do', async () => {
    const target = await startTarget();
    const of = `the proxy 127.0.0.1:${proxy.port} of HTTPS_PROXY`;
    const asked = (url: string) => patientFetch(url).catch((error: Error) => (error.cause as Error).message);
    proxy.lock('user:secret');
    expect(await asked(`https://${target}/`)).toContain(`${of}: it wants a user and a password (407)`);
    process.env['HTTPS_PROXY'] = `http://user:secret@127.0.0.1:${proxy.port}`;
    expect(await asked(`https://gone.invalid:${await freePort()}/`)).toBe(`${of}: it refuses this address (502)`);
    process.env['HTTPS_PROXY'] = 'http://127.0.0.1:1';
    const [error, failed] = [
      await asked(`https://${target}/`),
      await guarded(`https://${target}/`, true).catch((e) => e),
    ];
    expect(error).toMatch(/^the proxy 127\.0\.0\.1:1 of HTTPS_PROXY: .*ECONNREFUSED/);
    expect(failed).toMatchObject({ name: 'RequestFailed', sent: false, message: error });
  });
});

describe('the variables', () => {
  const asked = (url: string, environment: Record<string, string>) =>
    proxyFor(new URL(url), { HTTPS_PROXY: 'http://proxy:3128', HTTP_PROXY: 'plain:3128', ...environment })?.url.href ??
    null;

  it.each([
    ['https://api.example.com/', {}, 'http://proxy:3128/'],
    ['http://api.example.com/', {}, 'http://plain:3128/'],
    ['https://api.example.com/', { https_proxy: 'https://other:1' }, 'https://other:1/'],
    ['https://api.example.com/', { https_proxy: '' }, null],
    ['https://api.example.com/', { NO_PROXY: 'example.com' }, null],
    ['https://api.example.com/', { NO_PROXY: 'a.org, .example.com' }, null],
    ['https://api.example.com/', { NO_PROXY: '*.example.com:443' }, null],
    ['https://api.example.com/', { NO_PROXY: 'example.com:8443' }, 'http://proxy:3128/'],
    ['https://myexample.com/', { NO_PROXY: 'example.com' }, 'http://proxy:3128/'],
    ['https://api.example.com/', { NO_PROXY: '*' }, null],
    ['https://[2001:db8::1]/', { NO_PROXY: '2001:db8::1' }, null],
    ['https://10.1.2.3/', { NO_PROXY: '10.1.2.3' }, null],
    ['http://localhost:11434/', {}, null],
    ['http://127.0.0.1:11434/', {}, null],
    ['http://[::1]:11434/', {}, null],
  ])('for %s with %j lead to %s', (url, environment, expected) => {
    expect(asked(url, environment as Record<string, string>)).toBe(expected);
  });

  it.each([
    [
      'socks5://proxy:1080',
      'HTTPS_PROXY: socks5 proxies are not supported. Write http://host:port or https://host:port',
    ],
    ['http://', 'HTTPS_PROXY: it is no URL. Write http://host:port or https://host:port'],
  ])('that name no proxy, as %s, are refused at the start', (named, message) => {
    expect(() => checkProxies({ HTTPS_PROXY: named })).toThrow(message);
  });
});
