import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A proxy in front of a server that a test can interrupt. */
export type TcpProxy = AsyncDisposable &
  Readonly<{
    port: number;
    /** The URL with this proxy in the place of its server. */
    via: (url: string) => string;
    /** Ends every connection; new ones are let through. */
    cut: () => void;
    /** Ends every connection and refuses new ones. */
    refuse: () => Promise<void>;
    /** Keeps every connection open, takes new ones, and forwards nothing in either direction. */
    blackhole: () => void;
    /** Forwards again. The swallowed bytes are lost, so their connections are ended. */
    restore: () => Promise<void>;
  }>;

/** Makes the function that handles the server's bytes on one connection. */
type Answering = (client: Socket) => (bytes: Buffer) => void;

const asItIs: Answering = (client) => (bytes) => void client.write(bytes);

/**
 * Starts a proxy on loopback in front of the server of this URL.
 * @param answering called once for each connection; by default the client gets all bytes
 */
export async function startTcpProxy(target: string, answering = asItIs): Promise<TcpProxy> {
  const { hostname, port: targetPort } = new URL(target);
  const sockets = new Set<Socket>();
  let isSwallowing = false;
  const track = (socket: Socket): Socket => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    return socket.on('error', () => undefined);
  };
  const server = createServer((accepted) => {
    const client = track(accepted);
    if (isSwallowing) return void client.resume();
    const upstream = track(connect(Number(targetPort), hostname));
    client.on('data', (bytes) => isSwallowing || upstream.write(bytes));
    const answer = answering(client);
    upstream.on('data', (bytes: Buffer) => isSwallowing || answer(bytes));
    client.once('close', () => isSwallowing || upstream.destroy());
    upstream.once('close', () => client.destroy());
  });
  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  const listen = async (port: number): Promise<number> => {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
    return (server.address() as AddressInfo).port;
  };
  const refuse = async (): Promise<void> => {
    if (!server.listening) return;
    const closed = Promise.withResolvers<void>();
    server.close(() => closed.resolve());
    cut();
    await closed.promise;
  };
  const port = await listen(0);
  return {
    port,
    via(url) {
      const changed = new URL(url);
      changed.host = `127.0.0.1:${port}`;
      return changed.href;
    },
    cut,
    refuse,
    blackhole() {
      isSwallowing = true;
    },
    async restore() {
      if (isSwallowing) cut();
      isSwallowing = false;
      if (!server.listening) await listen(port);
    },
    [Symbol.asyncDispose]: refuse,
  };
}
