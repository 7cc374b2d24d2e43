import { once } from 'node:events';
import { createServer, type RequestListener, ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { OpenAPIHono } from '@hono/zod-openapi';
import { expect, test, vi } from 'vitest';
import type { HttpEnv } from '../../src/http/http-env.ts';
import { openAnswer } from '../../src/http/open-answer.ts';
import { listenerOf } from '../../src/http/server.ts';
import { untilHolds } from '../support/until-holds.ts';

const MIB = 1_048_576;

/** A connection on which a request was sent, and nothing is read. */
async function askWithoutReading(listener: RequestListener): Promise<Disposable & { socket: Socket }> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1').on('error', () => undefined);
  socket.pause().write('GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n');
  return {
    socket,
    [Symbol.dispose]() {
      socket.destroy();
      server.close();
    },
  };
}

test('an answer of which the client takes nothing is dropped after the limit', async () => {
  const dropped = vi.fn<() => void>();
  const givenUp = vi.fn<() => void>();
  let held = (): number => Number.NaN;
  using asked = await askWithoutReading((incoming, outgoing) => {
    incoming.socket.once('close', dropped);
    const answer = openAnswer(incoming.socket, outgoing, 20);
    answer.whenGivenUp(givenUp);
    held = answer.heldBytes;
    // More than the kernel holds for both ends.
    outgoing.end(Buffer.alloc(32 * MIB));
    expect(held()).toBeGreaterThan(0);
  });
  await untilHolds(() => expect(dropped).toHaveBeenCalled());
  expect(givenUp).toHaveBeenCalledOnce();
  expect(held()).toBe(0);
  asked.socket.resume();
  await once(asked.socket, 'close');
  expect(asked.socket.bytesRead).toBeLessThan(32 * MIB);
});

test('an answer of the server whose client takes nothing has 30 seconds', async () => {
  let socket: Socket | undefined;
  const app = new OpenAPIHono<HttpEnv>();
  app.get('/', (c) => c.body(Buffer.alloc(32 * MIB)));
  const listener = listenerOf(app, {});
  using _asked = await askWithoutReading((incoming, outgoing) => {
    socket = incoming.socket;
    void listener(incoming, outgoing);
  });
  await untilHolds(() => expect(socket?.timeout).toBe(30_000));
});

test('an answer without a turn on its connection ends with it', async () => {
  const [closed, waitingClosed] = [vi.fn<() => void>(), vi.fn<() => void>()];
  using asked = await askWithoutReading((incoming, outgoing) => {
    // As Node keeps the answer to the second of two requests at once. Node 22 does not tell it of the end.
    const waiting = new ServerResponse(incoming);
    openAnswer(incoming.socket, outgoing.once('close', closed));
    openAnswer(incoming.socket, waiting.once('close', waitingClosed));
    asked.socket.destroy();
  });
  await untilHolds(() => expect(waitingClosed).toHaveBeenCalledOnce());
  expect(closed).toHaveBeenCalledOnce();
});
