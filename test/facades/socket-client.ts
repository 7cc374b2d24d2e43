import { once } from 'node:events';
import { WebSocket } from 'ws';
import { z } from 'zod';

const eventSchema = z.looseObject({ type: z.string() });
export type SocketEvent = z.infer<typeof eventSchema>;

export type SocketClient = Disposable &
  Readonly<{
    socket: WebSocket;
    /** Asks for a response, and waits for its last event. A text is sent as it is. */
    ask: (body: object | string) => Promise<SocketEvent[]>;
    /** Resolves with the code of the close. */
    closed: Promise<number>;
  }>;

const isLast = ({ type }: SocketEvent): boolean => /^(?:error|response\.(?:completed|incomplete|failed))$/.test(type);

export const socketAddress = (url: string): string => `${url.replace('http', 'ws')}/v1/responses`;

/** A client of responses over a WebSocket. @throws if the server refuses the connection */
export async function openSocket(url: string, headers: Record<string, string> = {}): Promise<SocketClient> {
  const socket = new WebSocket(socketAddress(url), { headers });
  let events: SocketEvent[] = [];
  let onEvent = (): void => undefined;
  socket.on('message', (data) => {
    events.push(eventSchema.parse(JSON.parse(String(data))));
    onEvent();
  });
  const { promise: closed, resolve: onClose } = Promise.withResolvers<number>();
  socket.on('close', onClose);
  await once(socket, 'open');
  return {
    ...{ socket, closed },
    ask(body) {
      const { promise, resolve } = Promise.withResolvers<SocketEvent[]>();
      events = [];
      onEvent = () => {
        if (events.some(isLast)) resolve(events);
      };
      socket.send(typeof body === 'string' ? body : JSON.stringify({ type: 'response.create', ...body }));
      return promise;
    },
    [Symbol.dispose]: () => socket.terminate(),
  };
}
