import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it } from 'vitest';
import { BatonError } from '../../src/client/baton-error.ts';
import { createClient } from '../../src/client/client.ts';
import type { SessionSnapshot } from '../../src/client/contract.ts';
import type { Chunk, StreamEvent } from '../../src/client/session-events.ts';
import { createSseReader, type SseFrame } from '../../src/client/sse-frames.ts';
import { NO_USAGE } from '../../src/domain/usage.ts';
import { toSseFrame } from '../../src/http/sse.ts';

const encoder = new TextEncoder();

function framesOf(...pieces: readonly Uint8Array[]): SseFrame[] {
  const reader = createSseReader();
  return pieces.flatMap(reader.read);
}

describe('the reader of server-sent events', () => {
  it('reads the same events however the bytes are cut, characters and line ends included', () => {
    const text =
      'id: 1\nevent: a\ndata: {"x":"€"}\n\n: a remark\n\ndata: first\ndata:second\n\nevent: b\r\nid: 2\r\ndata: z\r\n\r\n';
    const bytes = encoder.encode(text);
    const expected = [
      { id: '1', event: 'a', data: '{"x":"€"}' },
      { id: null, event: 'message', data: 'first\nsecond' },
      { id: '2', event: 'b', data: 'z' },
    ];
    expect(framesOf(bytes)).toEqual(expected);
    for (let at = 1; at < bytes.length; at++) {
      expect(framesOf(bytes.slice(0, at), bytes.slice(at))).toEqual(expected);
    }
    expect(framesOf(...[...bytes].map((byte) => Uint8Array.of(byte)))).toEqual(expected);
  });

  it('drops an event that was cut off', () => {
    expect(framesOf(encoder.encode('data: whole\n\ndata: half\n'))).toMatchObject([{ data: 'whole' }]);
  });
});

type Handler = (request: IncomingMessage, response: ServerResponse, no: number) => void;

async function startServer(handler: Handler) {
  let no = 0;
  const server = createServer((request, response) => handler(request, response, ++no));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
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
    epoch: null,
    event: { seq, type: 'run:queued', runId, createdAt: '2026-01-01T00:00:00.000Z', data: { runId } },
  });

const snapshot = (data: Partial<SessionSnapshot> = {}): string =>
  toSseFrame({
    kind: 'snapshot',
    data: {
      sessionId: 'ses_1',
      status: 'busy',
      activeRunId: runId,
      seq: 0,
      queueLength: 0,
      queue: [],
      inFlight: null,
      reset: false,
      usage: NO_USAGE,
      compactingSince: null,
      context: null,
      ...(data as object),
    },
  });
const chunk = (offset: number, content: string, epoch = 1): string =>
  toSseFrame({
    kind: 'live',
    event: { type: 'llm:chunk', data: { messageId: 'msg_1', epoch, offset, chunkType: 'text', content } },
  });
const response = (seq: number, messageId: string, content: string, reasoning?: string): string => {
  const more = { provider: 'p', model: 'm', finishReason: 'stop', tokenUsage: NO_USAGE };
  const data = { messageId, content, ...(reasoning !== undefined && { reasoning }), ...more };
  return toSseFrame({
    kind: 'event',
    epoch: null,
    event: { seq, type: 'llm:response', runId, createdAt: '2026-01-01T00:00:00.000Z', data },
  });
};
/** A snapshot's message with this much text. */
const written = (content: string, epoch = 1): Pick<SessionSnapshot, 'inFlight'> => ({
  inFlight: { messageId: 'msg_1', runId, step: 1, epoch, chunks: [{ chunkType: 'text', content, offset: 0 }] },
});

/** Events up to and including the first of this type and number, or text. */
async function until(events: AsyncIterable<StreamEvent>, isLast: (event: StreamEvent) => boolean) {
  const taken: StreamEvent[] = [];
  for await (const event of events) {
    taken.push(event);
    if (isLast(event)) break;
  }
  return taken;
}
const seqIs = (seq: number) => (event: StreamEvent) => 'seq' in event && event.seq === seq;
const seqsOf = (events: readonly StreamEvent[]) => events.flatMap((event) => ('seq' in event ? [event.seq] : []));
const chunksOf = (events: readonly StreamEvent[]): Chunk[] =>
  events.flatMap((event) => (event.type === 'llm:chunk' ? [event.data] : []));

const eventStream = { 'content-type': 'text/event-stream' };
const eventsOf = (url: string, options: { after?: number; signal?: AbortSignal } = {}) =>
  createClient({ baseUrl: url, retries: 2 }).events('ses_1', options);

describe('following a session', () => {
  it('goes on where it was when the connection breaks, without losing or repeating an event', async () => {
    const asked: (string | undefined)[] = [];
    await using server = await startServer((request, response, no) => {
      const after = request.headers['last-event-id'];
      asked.push(Array.isArray(after) ? 'twice' : after);
      response.writeHead(200, eventStream);
      response.write(snapshot({ seq: 3 }));
      if (no === 1) response.write(durable(1) + durable(2), () => response.destroy());
      // The rest in order, after an event that the client already has.
      else if (no === 2) response.end(durable(2) + durable(3));
      else response.write(durable(4));
    });
    const events = await until(eventsOf(server.url, { after: 0 }), seqIs(4));
    expect(seqsOf(events)).toEqual([1, 2, 3, 4]);
    expect(events.filter(({ type }) => type === 'session:snapshot').length).toBe(3);
    expect(asked).toEqual(['0', '2', '3']);
  });

  it('asks after the snapshot for what it has missed when it began with what is new', async () => {
    const asked: unknown[] = [];
    await using server = await startServer((request, response, no) => {
      asked.push(request.headers['last-event-id']);
      response.writeHead(200, eventStream);
      if (no === 1) response.write(snapshot({ seq: 7 }), () => response.destroy());
      else response.write(snapshot({ seq: 8 }) + durable(8));
    });
    expect(seqsOf(await until(eventsOf(server.url), seqIs(8)))).toEqual([8]);
    expect(asked).toEqual([undefined, '7']);
  });

  it('brings each character of a message once, over all connections, behind the events that lead to it', async () => {
    await using server = await startServer((_request, response, no) => {
      response.writeHead(200, eventStream);
      if (no === 1)
        response.write(snapshot() + durable(1) + chunk(0, 'Hel') + chunk(3, 'lo'), () => response.destroy());
      // A preview ahead of the replay, as the server may send it.
      else response.write(snapshot({ seq: 2, ...written('Hello you') }) + chunk(9, ' there') + durable(2));
    });
    const events = await until(
      eventsOf(server.url, { after: 0 }),
      (event) => event.type === 'llm:chunk' && event.data.content === ' there',
    );
    expect(chunksOf(events).map(({ offset, content }) => [offset, content])).toEqual([
      [0, 'Hel'],
      [3, 'lo'],
      [5, ' you'],
      [9, ' there'],
    ]);
    expect(events.slice(-3)).toMatchObject([{ seq: 2 }, { type: 'llm:chunk' }, { type: 'llm:chunk' }]);
  });

  it('fills from the response what it has missed of a message, and what came behind a hole', async () => {
    await using server = await startServer((_request, response_) => {
      response_.writeHead(200, eventStream);
      response_.write(snapshot() + chunk(0, 'One') + chunk(9, 'three') + response(1, 'msg_1', 'One two three'));
      response_.write(response(2, 'msg_2', 'Answer', 'Because'));
    });
    const events = await until(eventsOf(server.url), seqIs(2));
    expect(chunksOf(events)).toMatchObject([
      { messageId: 'msg_1', offset: 0, content: 'One' },
      { messageId: 'msg_1', offset: 3, content: ' two three' },
      { messageId: 'msg_2', offset: 0, content: 'Because', chunkType: 'reasoning' },
      { messageId: 'msg_2', offset: 7, content: 'Answer', chunkType: 'text' },
    ]);
  });

  it('brings the text of an answer once that ends while its replay is on its way', async () => {
    await using server = await startServer((_request, response_) => {
      response_.writeHead(200, eventStream);
      // Text from before the snapshot is part of the message's start, under the epoch in which it was written.
      response_.write(snapshot({ seq: 4 }) + durable(1) + chunk(0, 'One') + chunk(3, ' two', 1));
      response_.write(response(2, 'msg_1', 'One two') + response(3, 'msg_2', 'Three') + durable(4) + durable(5));
    });
    const events = await until(eventsOf(server.url, { after: 0 }), seqIs(5));
    expect(chunksOf(events).map(({ content }) => content)).toEqual(['One two', 'Three']);
    expect(seqsOf(events)).toEqual([1, 2, 3, 4, 5]);
  });

  it('begins a message anew with a higher epoch, and lets nothing of the lower one through', async () => {
    await using server = await startServer((_request, response) => {
      response.writeHead(200, eventStream);
      response.write(snapshot(written('Old text')) + chunk(0, 'New', 2) + chunk(8, ' lost', 1) + chunk(3, '.', 2));
    });
    const events = await until(eventsOf(server.url), (event) => event.type === 'llm:chunk' && event.data.offset === 3);
    expect(chunksOf(events).map(({ content }) => content)).toEqual(['Old text', 'New', '.']);
  });

  it('tells of a reset and lets events of names it does not know pass, but no heartbeats', async () => {
    await using server = await startServer((_request, response) => {
      response.writeHead(200, eventStream);
      const unknown = 'id: 41\nevent: run:teleported\ndata: {"type":"run:teleported","seq":41,"data":{}}\n\n';
      response.write(
        snapshot({ seq: 42, reset: true }) + toSseFrame({ kind: 'heartbeat', seq: 0 }) + unknown + durable(42),
      );
    });
    const events = await until(eventsOf(server.url, { after: 3 }), seqIs(42));
    expect(events).toMatchObject([
      { type: 'session:snapshot', data: { reset: true } },
      { type: 'run:teleported', seq: 41 },
      { type: 'run:queued', seq: 42 },
    ]);
  });

  it('fails with the code of the server when it refuses, also when it does so later on', async () => {
    await using server = await startServer((_request, response, no) => {
      if (no === 1) {
        response.writeHead(200, eventStream);
        return void response.end(snapshot() + durable(1));
      }
      response.writeHead(404, { 'content-type': 'application/problem+json', 'x-request-id': 'req' });
      response.end(JSON.stringify({ code: 'not_found', detail: 'no such session' }));
    });
    const failure = await until(eventsOf(server.url, { after: 0 }), seqIs(9)).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(BatonError);
    expect(failure).toMatchObject({ code: 'not_found', message: 'no such session', status: 404, requestId: 'req' });
  });

  it('gives up on a server that it never reaches', async () => {
    let asked = 0;
    await using server = await startServer((_request, response) => {
      asked += 1;
      response.destroy();
    });
    await expect(until(eventsOf(server.url), seqIs(1))).rejects.toMatchObject({ code: 'unreachable', status: null });
    expect(asked).toBe(3);
  });

  it('ends with its signal, whatever it waits for', async () => {
    const stop = new AbortController();
    await using server = await startServer((_request, response) => {
      response.writeHead(200, eventStream);
      response.write(snapshot({ seq: 1 }));
    });
    const events = eventsOf(server.url, { signal: stop.signal });
    expect(await events.next()).toMatchObject({ value: { type: 'session:snapshot' } });
    const next = events.next();
    stop.abort();
    expect(await next).toEqual({ done: true, value: undefined });
    expect(await eventsOf(server.url, { signal: stop.signal }).next()).toEqual({ done: true, value: undefined });
  });

  it('closes its connection when the reader has enough', async () => {
    const closed = Promise.withResolvers<void>();
    await using server = await startServer((_request, response) => {
      response.writeHead(200, eventStream);
      response.on('close', closed.resolve);
      response.write(snapshot({ seq: 1 }));
    });
    for await (const _event of eventsOf(server.url)) break;
    await closed.promise;
  });
});
