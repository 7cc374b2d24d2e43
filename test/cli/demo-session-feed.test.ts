import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it } from 'vitest';
import { ApiError } from '../../src/cli/demo/api-error.ts';
import { type FeedItem, followSession } from '../../src/cli/demo/session-feed.ts';
import { readSseFrames, type SseFrame } from '../../src/cli/demo/sse-frames.ts';
import { toSseFrame } from '../../src/events/sse.ts';

const encoder = new TextEncoder();

async function framesOf(...pieces: readonly Uint8Array[]): Promise<SseFrame[]> {
  async function* body() {
    yield* pieces;
  }
  return Array.fromAsync(readSseFrames(body()));
}

describe('the reader of server-sent events', () => {
  it('reads the same events however the bytes are cut, characters and line ends included', async () => {
    const text =
      'id: 1\nevent: a\ndata: {"x":"€"}\n\n: a remark\n\ndata: first\ndata:second\n\nevent: b\r\nid: 2\r\ndata: z\r\n\r\n';
    const bytes = encoder.encode(text);
    const expected = [
      { id: '1', event: 'a', data: '{"x":"€"}' },
      { id: null, event: 'message', data: 'first\nsecond' },
      { id: '2', event: 'b', data: 'z' },
    ];
    expect(await framesOf(bytes)).toEqual(expected);
    for (let at = 1; at < bytes.length; at++) {
      expect(await framesOf(bytes.slice(0, at), bytes.slice(at))).toEqual(expected);
    }
    expect(await framesOf(...[...bytes].map((byte) => Uint8Array.of(byte)))).toEqual(expected);
  });

  it('drops an event that was cut off', async () => {
    expect(await framesOf(encoder.encode('data: whole\n\ndata: half\n'))).toMatchObject([{ data: 'whole' }]);
  });
});

type Handler = (request: IncomingMessage, response: ServerResponse, no: number) => void;

async function startServer(handler: Handler) {
  let no = 0;
  const server = createServer((request, response) => handler(request, response, ++no));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/events`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const runId = 'run_1';
const durable = (seq: number): string =>
  toSseFrame({
    kind: 'event',
    event: { seq, type: 'run:queued', runId, createdAt: '2026-01-01T00:00:00.000Z', data: { runId } },
  });

async function take(items: AsyncIterable<FeedItem>, amount: number): Promise<FeedItem[]> {
  const taken: FeedItem[] = [];
  for await (const item of items) {
    taken.push(item);
    if (taken.length === amount) break;
  }
  return taken;
}

const signal = new AbortController().signal;

describe('following a session', () => {
  it('goes on where it was when the connection breaks, without losing or repeating an event', async () => {
    const asked: (string | undefined)[] = [];
    await using server = await startServer((request, response, no) => {
      const after = request.headers['last-event-id'];
      asked.push(Array.isArray(after) ? 'twice' : after);
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      if (no === 1) response.write(durable(1) + durable(2), () => response.destroy());
      // The end of a body in order, and an event that is known already.
      else if (no === 2) response.end(durable(2) + durable(3));
      else response.write(durable(4));
    });
    const items = await take(followSession({ url: server.url, signal, retryDelayMs: 1 }), 4);
    expect(items.map((item) => item.kind === 'event' && item.seq)).toEqual([1, 2, 3, 4]);
    expect(asked).toEqual([undefined, '2', '3']);
  });

  it('skips heartbeats and events of names it does not know', async () => {
    await using server = await startServer((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      const unknown = 'id: 1\nevent: run:teleported\ndata: {"type":"run:teleported","seq":1,"data":{}}\n\n';
      response.write(toSseFrame({ kind: 'heartbeat', seq: 0 }) + unknown + durable(2));
    });
    const items = await take(followSession({ url: server.url, signal }), 1);
    expect(items).toMatchObject([{ kind: 'event', seq: 2, event: { type: 'run:queued' } }]);
  });

  it('fails with the code of the server when it refuses', async () => {
    await using server = await startServer((_request, response) => {
      response.writeHead(404, { 'content-type': 'application/problem+json' });
      response.end(JSON.stringify({ code: 'not_found', detail: 'no such session' }));
    });
    const failure = await take(followSession({ url: server.url, signal }), 1).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(ApiError);
    expect(failure).toMatchObject({ code: 'not_found', message: 'no such session' });
  });

  it('gives up on a server that never brings anything new', async () => {
    let connections = 0;
    await using server = await startServer((_request, response) => {
      connections += 1;
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end();
    });
    await expect(take(followSession({ url: server.url, signal, retryDelayMs: 1 }), 1)).rejects.toThrow('in a row');
    expect(connections).toBe(6);
  });

  it('ends with the reason of its signal', async () => {
    const stop = new AbortController();
    await using server = await startServer((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(durable(1));
    });
    const items = followSession({ url: server.url, signal: stop.signal });
    expect(await items.next()).toMatchObject({ value: { kind: 'event', seq: 1 } });
    stop.abort(new Error('enough'));
    await expect(items.next()).rejects.toThrow('enough');
  });
});
