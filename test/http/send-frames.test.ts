import { createServer, get, type IncomingMessage } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { setImmediate as nextRound } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { type FrameSourceOptions, openFrameSource } from '../../src/http/frame-source.ts';
import { openAnswer } from '../../src/http/open-answer.ts';
import { createOutflow } from '../../src/http/outflow.ts';
import { sendFrames } from '../../src/http/send-frames.ts';
import { frameSourceOf, framesResponse } from '../../src/http/sse.ts';
import { untilHolds } from '../support/until-holds.ts';

type Stream = AsyncIterable<string> & { returned: boolean; taken: number };

const MIB = 1_048_576;

/** The stream that the server sends on the next connection. */
let stream: Stream;
let options: Omit<FrameSourceOptions, 'signal'> = {};
const AMPLE = createOutflow({ all: 256 * MIB, client: 256 * MIB });
let outflow = AMPLE;
const ended = vi.fn<() => void>();
const givenUp = vi.fn<() => void>();
const shutdown = new AbortController();
const server = createServer((_request, outgoing) => {
  const response = framesResponse(stream, String, { signal: shutdown.signal, onEnd: ended, ...options });
  const source = frameSourceOf(new Response(response.body, response));
  if (source === null) throw new Error('the response has no frames');
  const answer = openAnswer(outgoing.req.socket, outgoing);
  answer.whenGivenUp(givenUp);
  outflow.watch('reader', answer);
  sendFrames(response, source, outgoing, answer);
});

beforeAll(() => new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve)));
afterAll(() => new Promise<void>((resolve) => void server.close(() => resolve())));
afterEach(() => void givenUp.mockClear());
afterEach(() => void vi.useRealTimers());

test('all frames get through, however many there are, and then the end', async () => {
  stream = streamOf(2_000, 'x'.repeat(1_000));
  options = { maxBufferedBytes: 20_000 };
  const { port } = server.address() as AddressInfo;
  const response = await fetch(`http://127.0.0.1:${port}/`);
  expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
  expect(await response.text()).toHaveLength(2_000_000);
  await untilHolds(() => expect(stream.returned).toBe(true));
});

test('a reader that takes nothing from a full buffer has 30 seconds', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const fail = vi.fn<() => void>();
  const frames = openFrameSource(() => streamOf(2, 'x'), Buffer.from, { signal: shutdown.signal });
  frames.flowTo({ write: () => undefined, bufferedBytes: () => 2 * MIB, end: () => undefined, fail });
  await vi.advanceTimersByTimeAsync(29_999);
  expect(fail).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(1);
  expect(fail).toHaveBeenCalledOnce();
});

test('large frames of many streams are written in slices, one in each round of the event loop', async () => {
  const frame = 'x'.repeat(MIB);
  // Each connection has a stream of its own.
  stream = { taken: 0, returned: false, [Symbol.asyncIterator]: () => streamOf(1, frame)[Symbol.asyncIterator]() };
  options = {};
  const sockets: Socket[] = [];
  const collect = (socket: Socket): void => void sockets.push(socket);
  server.on('connection', collect);
  const { port } = server.address() as AddressInfo;
  const written = (): number => sockets.reduce((sum, socket) => sum + socket.bytesWritten, 0);
  const readers = Array.from({ length: 8 }, async () => {
    const response = await fetch(`http://127.0.0.1:${port}/`, { headers: { connection: 'close' } });
    return (await response.text()).length;
  });
  let isOver = false;
  const lengths = Promise.all(readers).finally(() => {
    isOver = true;
  });
  let largest = 0;
  for (let before = 0; !isOver; before = written()) {
    await nextRound();
    largest = Math.max(largest, written() - before);
  }
  expect(await lengths).toEqual(Array.from({ length: 8 }, () => MIB));
  server.off('connection', collect);
  // Two turns of the loop may lie between two measurements.
  expect(largest).toBeLessThan(700_000);
});

test('a reader that takes nothing is dropped, with no more in memory than it may have', async () => {
  stream = streamOf(100_000, 'x'.repeat(1_000));
  options = { maxBufferedBytes: 20_000, stallLimitMs: 20 };
  const closed = vi.fn<() => void>();
  const reader = ask().pause().once('close', closed);
  await untilHolds(() => expect(stream.returned).toBe(true));
  const { taken } = stream;
  // The kernel's buffers for both ends hold some megabytes.
  expect(taken).toBeLessThan(50_000);
  reader.resume();
  await untilHolds(() => expect(closed).toHaveBeenCalled());
  expect(stream.taken).toBe(taken);
  expect(givenUp).toHaveBeenCalledOnce();
});

test('a reader that is behind is dropped at once when more is held than may be', async () => {
  stream = streamOf(100_000, 'x'.repeat(1_000));
  options = {};
  outflow = createOutflow({ all: MIB, client: MIB / 4 });
  const reader = ask().pause();
  await untilHolds(() => expect(stream.returned).toBe(true));
  expect(stream.taken).toBeLessThan(50_000);
  expect(outflow.heldBytes()).toBe(0);
  reader.destroy();
  outflow = AMPLE;
});

test('a reader that takes nothing of one large frame is dropped', async () => {
  stream = streamOf(2, 'x'.repeat(32 * MIB));
  options = { maxBufferedBytes: 20_000, stallLimitMs: 20 };
  const closed = vi.fn<() => void>();
  const reader = ask().pause().once('close', closed);
  await untilHolds(() => expect(stream.returned).toBe(true));
  expect(stream.taken).toBe(1);
  reader.resume();
  await untilHolds(() => expect(closed).toHaveBeenCalled());
  expect(reader.bytesRead).toBeLessThan(32 * MIB);
});

test.each([
  { what: 'frames larger than the buffer', count: 2, frame: '語'.repeat(6 * MIB), maxBufferedBytes: 20_000 },
  { what: 'more frames than the buffer holds', count: 30_000, frame: 'x'.repeat(1_000), maxBufferedBytes: 24 * MIB },
])('a slow reader that goes on reading gets everything: $what', async ({ count, frame, maxBufferedBytes }) => {
  // The test's clock moves on by 1 ms for each KiB that the reader has read. The kernel asks for more by the megabyte,
  // so the stall limit must allow the time of some megabytes.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  stream = streamOf(count, frame);
  options = { maxBufferedBytes, stallLimitMs: 8_192 };
  const read = await readSlowly(await request(), (bytes) => vi.advanceTimersByTime(bytes / 1_024));
  expect(read.equals(Buffer.from(frame.repeat(count)))).toBe(true);
});

test('a slow reader that stops reading is dropped', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  stream = streamOf(40_000, 'x'.repeat(1_000));
  options = { maxBufferedBytes: 20_000, stallLimitMs: 8_192 };
  const response = await request();
  let bytesRead = 0;
  let turns = 0;
  const reading = readSlowly(response, async (bytes) => {
    bytesRead += bytes;
    vi.advanceTimersByTime(bytes / 1_024);
    for (; turns < 1_000 && bytesRead > 4 * MIB && !stream.returned; turns += 1) {
      vi.advanceTimersByTime(64);
      await nextRound();
    }
  });
  await expect(reading).rejects.toMatchObject({ code: 'ECONNRESET' });
  expect(stream.taken).toBeLessThan(40_000);
});

test('the end comes behind all that still waits', async () => {
  stream = streamOf(20_000, 'x'.repeat(1_000));
  options = { maxBufferedBytes: 32 * MIB };
  const response = await request();
  await untilHolds(() => expect(stream.returned).toBe(true));
  const read = await readSlowly(response, () => undefined);
  expect(read).toHaveLength(20_000_000);
});

test('a reader that leaves closes its stream', async () => {
  stream = streamOf(1, 'frame', 'goes on');
  options = {};
  ended.mockClear();
  const reader = ask();
  await new Promise((resolve) => reader.once('data', resolve));
  expect(stream.returned).toBe(false);
  reader.destroy();
  await untilHolds(() => expect(stream.returned).toBe(true));
  expect(ended).toHaveBeenCalledOnce();
});

test('a stream that fails ends the connection without the end of a response', async () => {
  stream = Object.assign(failing(), { returned: false, taken: 0 });
  let received = '';
  const reader = ask().setEncoding('latin1');
  reader.on('data', (text: string) => {
    received += text;
  });
  await new Promise((resolve) => reader.once('close', resolve));
  expect(received).toMatch(/\r\nbegun\r\n$/);
  expect(received).not.toContain('\r\n0\r\n');
  expect(givenUp).not.toHaveBeenCalled();
});

function ask(): Socket {
  const { port } = server.address() as AddressInfo;
  const socket = connect({ host: '127.0.0.1', port });
  socket.on('error', () => undefined).write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
  return socket;
}

function request(): Promise<IncomingMessage> {
  const { port } = server.address() as AddressInfo;
  return new Promise((resolve, reject) => {
    get({ host: '127.0.0.1', port, agent: false }, resolve).on('error', reject);
  });
}

/** Reads piece by piece. Before the next piece the server gets a round of the event loop. */
async function readSlowly(response: IncomingMessage, onPiece: (bytes: number) => unknown): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of response as AsyncIterable<Buffer>) {
    pieces.push(piece);
    await onPiece(piece.length);
    await nextRound();
  }
  return Buffer.concat(pieces);
}

async function* failing(): AsyncGenerator<string> {
  yield 'begun';
  await new Promise((resolve) => setImmediate(resolve));
  throw new Error('no database');
}

function streamOf(count: number, frame: string, then: 'ends' | 'goes on' = 'ends'): Stream {
  const over = Promise.withResolvers<IteratorResult<string>>();
  const end: IteratorResult<string> = { done: true, value: undefined };
  const made: Stream = {
    taken: 0,
    returned: false,
    [Symbol.asyncIterator]: () => ({
      async next() {
        if (made.taken < count) {
          made.taken += 1;
          return { done: false, value: frame };
        }
        return then === 'ends' ? end : over.promise;
      },
      async return() {
        made.returned = true;
        over.resolve(end);
        return end;
      },
    }),
  };
  return made;
}
