import { once } from 'node:events';
import { request } from 'node:http';
import OpenAI from 'openai';
import { ResponsesWS } from 'openai/resources/responses/ws';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { z } from 'zod';
import { MAX_CONTENT_BODY_BYTES } from '../../src/domain/tunables.ts';
import { revokeApiKey } from '../../src/store/around/api-keys.ts';
import { createWaitingTools } from '../flow/waiting-scenario.ts';
import { createTestKey } from '../support/keys.ts';
import { openSocket, type SocketEvent, socketAddress } from './socket-client.ts';
import { type ChatService, startChatService } from './ui-chat-fixture.ts';

const AGENTS = Array.from({ length: 12 }, (_, n) => ({ name: `model-${n}` }));

let started: ChatService;
let taken = 0;

type Replies = Parameters<ChatService['service']['simulator']['script']>[1];

function nextModel(replies: Replies, { service } = started): string {
  const model = `model-${taken++}`;
  service.simulator.script(model, replies);
  return model;
}

const told = z.object({ response: z.looseObject({ id: z.string(), output_text: z.string() }) });
const endOf = (events: readonly SocketEvent[]) => told.parse(events.at(-1)).response;

/** The status with which the server refuses a connection. */
async function refusalOf(url: string, headers: Record<string, string> = {}): Promise<number | undefined> {
  const socket = new WebSocket(socketAddress(url), { headers });
  const [, response] = await once(socket, 'unexpected-response');
  socket.on('error', () => undefined).terminate();
  return response.statusCode;
}

beforeAll(async () => {
  started = await startChatService(AGENTS, createWaitingTools().tools);
});
afterAll(() => started[Symbol.asyncDispose]());

describe('responses over a WebSocket', () => {
  it('come one after the other, by the events of a stream, and go on by previous_response_id', async () => {
    const model = nextModel([{ text: 'One.' }, { text: 'Two.' }]);
    using client = await openSocket(started.url);
    const first = await client.ask({ model, input: 'First' });
    expect(first.map(({ type }) => type)).toEqual([
      ...['response.created', 'response.in_progress', 'response.output_item.added', 'response.content_part.added'],
      ...['response.output_text.delta', 'response.output_text.done', 'response.content_part.done'],
      ...['response.output_item.done', 'response.completed'],
    ]);
    const { id } = endOf(first);
    const second = await client.ask({ model, input: 'And?', previous_response_id: id, store: false });
    expect(endOf(second)).toMatchObject({ previous_response_id: id, output_text: 'Two.' });
  });

  it('are those of OpenAI’s own library', async () => {
    const model = nextModel([{ text: 'Hello!' }]);
    const client = new OpenAI({ baseURL: `${started.url}/v1`, apiKey: 'none' });
    const socket = new ResponsesWS(client);
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    socket.on('response.completed', ({ response }) => resolve(response.id));
    socket.on('error', reject);
    socket.send({ type: 'response.create', model, input: 'Hi' });
    expect((await client.responses.retrieve(await promise)).output_text).toBe('Hello!');
    socket.close();
  });

  it('are refused by an event that names the field, and the connection stays', async () => {
    const model = nextModel([{ text: 'Still here.' }]);
    using client = await openSocket(started.url);
    const refusals: readonly (readonly [object, object])[] = [
      [{ type: 'response.steer' }, { status: 400, error: { code: 'invalid_request', param: 'type' } }],
      [
        { model, input: 'Hi', background: true },
        { status: 400, error: { param: 'background' } },
      ],
      [
        { model, input: 'Hi', stream_id: 'a' },
        { status: 400, error: { code: 'invalid_request' } },
      ],
      [{ input: 'Hi' }, { status: 400, error: { param: 'model' } }],
      [
        { model: 'nobody', input: 'Hi' },
        { status: 404, error: { code: 'model_not_found', param: 'model' } },
      ],
      [
        { model, input: 'Hi', previous_response_id: 'resp_gone' },
        { status: 404, error: { code: 'previous_response_not_found', param: 'previous_response_id' } },
      ],
    ];
    for (const [body, refusal] of refusals) {
      expect(await client.ask(body)).toMatchObject([{ type: 'error', ...refusal }]);
    }
    for (const text of ['{', '[]', '['.repeat(500)]) {
      expect(await client.ask(text)).toMatchObject([{ type: 'error', status: 400 }]);
    }
    expect(endOf(await client.ask({ model, input: 'Hi' })).output_text).toBe('Still here.');
  });

  it('are refused while one is in progress', async () => {
    const model = nextModel([{ text: 'Late.', gates: { beforeEnd: 'late' } }]);
    using client = await openSocket(started.url);
    const first = client.ask({ model, input: 'Hi' });
    client.socket.send(JSON.stringify({ type: 'response.create', model, input: 'Me, too' }));
    expect((await first).at(-1)).toMatchObject({ type: 'error', status: 409, error: { code: 'conflict' } });
    started.service.simulator.gate('late').release();
  });
});

describe('a WebSocket', () => {
  it('is refused like any request: without the right key, to a page of another origin, beyond the bounds', async () => {
    await using other = await startChatService(AGENTS, [], { environment: { BATON_STREAMS_PER_KEY: '2' } });
    const { url } = other;
    expect(await refusalOf(url, { origin: 'https://elsewhere.example' })).toBe(403);
    const key = await createTestKey(other.service.deps.db);
    const reader = await createTestKey(other.service.deps.db, 'default', ['read']);
    expect(await refusalOf(url, { ...key.headers, origin: 'http://127.0.0.1:9' })).toBe(403);
    expect(await refusalOf(url)).toBe(401);
    expect(await refusalOf(url, { authorization: 'Bearer baton_wrong' })).toBe(401);
    expect((await fetch(`${url}/v1/responses`, { headers: key.headers })).status).toBe(400);
    using reading = await openSocket(url, reader.headers);
    expect(await reading.ask({ model: 'model-0', input: 'Hi' })).toMatchObject([{ type: 'error', status: 403 }]);
    using first = await openSocket(url, key.headers);
    using _second = await openSocket(url, key.headers);
    expect(await refusalOf(url, key.headers)).toBe(429);
    first.socket.close();
    await first.closed;
    using _third = await openSocket(url, key.headers);
  });

  it('ends with its key, and after the response in progress with the server', async () => {
    const other = await startChatService(AGENTS, []);
    const { db } = other.service.deps;
    const key = await createTestKey(db);
    const kept = await createTestKey(db);
    using client = await openSocket(other.url, key.headers);
    using idle = await openSocket(other.url, kept.headers);
    using busy = await openSocket(other.url, kept.headers);
    await db.transaction().execute((tx) => revokeApiKey(tx, key.id));
    expect(await client.closed).toBe(1008);
    const model = nextModel([{ text: 'Late.', gates: { beforeEnd: 'late' } }], other);
    const asked = busy.ask({ model, input: 'Hi' });
    await other.service.simulator.gate('late').reached;
    const stopped = other[Symbol.asyncDispose]();
    expect((await asked).at(-1)).toMatchObject({ type: 'error', error: { code: 'store_unavailable' } });
    expect(await Promise.all([idle.closed, busy.closed])).toEqual([1001, 1001]);
    other.service.simulator.gate('late').release();
    await stopped;
  });

  it('ends with a message that is too large or no text', async () => {
    using large = await openSocket(started.url);
    large.socket.send(Buffer.alloc(MAX_CONTENT_BODY_BYTES + 1, 0x20).toString());
    expect(await large.closed).toBe(1009);
    using binary = await openSocket(started.url);
    binary.socket.send(Buffer.from('{}'));
    expect(await binary.closed).toBe(1003);
  });

  it('counts what arrives with the bodies of its tenant', async () => {
    await using other = await startChatService(AGENTS, [], { environment: { BATON_BODY_BYTES: '33554432' } });
    // Messages that never end.
    const clients = await Promise.all(Array.from({ length: 4 }, () => openSocket(other.url)));
    const piece = Buffer.alloc(MAX_CONTENT_BODY_BYTES - 1, 0x20).toString();
    for (const { socket } of clients) socket.send(piece, { fin: false });
    expect(await Promise.race(clients.map(({ closed }) => closed))).toBe(1013);
    for (const client of clients) client[Symbol.dispose]();
  });

  it('is not one of another protocol, whose request is answered as it is', async () => {
    const upgrade = { connection: 'Upgrade, HTTP2-Settings', upgrade: 'h2c', 'http2-settings': 'AAMAAABkAAQAAP__' };
    const headers = { ...upgrade, 'content-type': 'application/json' };
    const asked = request(`${started.url}/v1/sessions`, { method: 'POST', headers });
    asked.end(JSON.stringify({ agent: 'model-0' }));
    const [response] = await once(asked, 'response');
    expect(response.statusCode).toBe(201);
    response.resume();
  });
});
