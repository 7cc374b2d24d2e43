import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startChatPage } from '../../examples/chat/server.ts';
import { exchangeRaw } from '../http/raw-exchange.ts';

type Heard = Readonly<{ url: string; key: string | undefined; type: string | undefined }>;

const stack = new AsyncDisposableStack();
let page: string;
let service: Readonly<{ url: string; heard: Heard[] }>;
let stranger: Readonly<{ url: string; heard: Heard[] }>;

/** A server that records the requests it receives. */
async function listen() {
  const heard: Heard[] = [];
  const server = createServer(({ url = '', headers }, response) => {
    heard.push({ url, key: headers.authorization, type: headers['content-type'] });
    response.end('{}');
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  stack.defer(() => void server.closeAllConnections());
  stack.defer(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, heard };
}

beforeAll(async () => {
  service = await listen();
  stranger = await listen();
  page = stack.use(await startChatPage({ batonUrl: service.url, apiKey: 'secret', agent: 'workspace' })).url;
});
afterAll(() => stack.disposeAsync());

/** The status of the answer to one request, whose target is sent as it stands here. */
async function ask(target: string, headers: Readonly<Record<string, string>> = {}, method = 'GET'): Promise<number> {
  const fields = Object.entries({ host: new URL(page).host, connection: 'close', ...headers });
  const lines = [`${method} ${target} HTTP/1.1`, ...fields.map(([name, value]) => `${name}: ${value}`), '', ''];
  return Number((await exchangeRaw(page, lines.join('\r\n'))).split(' ')[1]);
}

it('shows its key to the service alone, whatever host a request line names', async () => {
  const { host } = new URL(stranger.url);
  for (const target of [`//${host}/api/chat`, `/\\${host}/api/chat`, `${stranger.url}/api/chat`, 'http://%/api/chat']) {
    expect(await ask(target), target).toBe(403);
  }
  expect(await ask(`/..//${host}/api/chat`)).toBe(404);
  expect(await ask(`/api/chat/x/stream?a=//${host}`)).toBe(200);
  expect(stranger.heard).toEqual([]);
  expect(service.heard).toEqual([{ url: `/api/chat/x/stream?a=//${host}`, key: 'Bearer secret', type: undefined }]);
});

it('passes on what a chat needs of the service, and nothing else of it', async () => {
  service.heard.length = 0;
  const blob = `/v1/blobs/blob_${'0'.repeat(32)}`;
  for (const target of [blob, '/v1/blobs', '/api/chat/x/messages']) expect(await ask(target), target).toBe(200);
  expect(service.heard.map(({ url, key }) => [url, key])).toEqual(
    [blob, '/v1/blobs', '/api/chat/x/messages'].map((url) => [url, 'Bearer secret']),
  );
  const closed = ['/v1/sessions', '/v1/blobs/../sessions', `${blob}/..%2f..%2fsessions`, '/v1/blobsx', '/v1/audit'];
  for (const target of closed) expect(await ask(target), target).toBe(404);
  expect(service.heard).toHaveLength(3);
});

it('begins a chat for its own page alone: an address that any site can have opened begins none', async () => {
  service.heard.length = 0;
  for (const headers of [{}, { 'sec-fetch-site': 'cross-site' }]) expect(await ask('/', headers)).toBe(200);
  expect(await ask('/chats', {}, 'GET')).toBe(404);
  const empty = { 'content-length': '0' };
  expect(await ask('/chats', { ...empty, origin: stranger.url }, 'POST')).toBe(403);
  expect(service.heard).toEqual([]);
  expect(await ask('/chats', { ...empty, origin: page }, 'POST')).toBe(200);
  expect(service.heard.map(({ url }) => url)).toEqual(['/v1/sessions']);
});

it('takes requests of its own page, and of programs, and passes on what they say the body is', async () => {
  service.heard.length = 0;
  const json = { 'content-type': 'application/json', 'content-length': '0' };
  for (const headers of [
    { origin: stranger.url },
    { origin: 'null' },
    { host: `evil.example:${new URL(page).port}` },
  ]) {
    expect(await ask('/api/chat', { ...json, ...headers }, 'POST'), JSON.stringify(headers)).toBe(403);
  }
  expect(service.heard).toEqual([]);
  expect(await ask('/api/chat', { ...json, origin: page }, 'POST')).toBe(200);
  expect(await ask('/api/chat', { 'content-type': 'text/plain', 'content-length': '0' }, 'POST')).toBe(200);
  expect(service.heard.map(({ type }) => type)).toEqual(['application/json', 'text/plain']);
});
