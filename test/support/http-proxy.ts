import { once } from 'node:events';
import { createServer, type IncomingMessage, request as openRequest } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import type { Duplex } from 'node:stream';

/** A proxy over HTTP. It alone can resolve names: all of them are on this machine. */
export type HttpProxy = AsyncDisposable &
  Readonly<{
    port: number;
    /** What it was asked for, as `CONNECT host:port` or `METHOD url`. */
    seen: string[];
    /** From now on it wants this user and password, as `user:password`. */
    lock: (credentials: string) => void;
  }>;

/** Starts a proxy for tunnels and for plain requests. */
export async function startHttpProxy(): Promise<HttpProxy> {
  const seen: string[] = [];
  const sockets = new Set<Duplex>();
  let credentials: string | null = null;
  const mayPass = ({ headers }: IncomingMessage): boolean =>
    credentials === null || headers['proxy-authorization'] === `Basic ${Buffer.from(credentials).toString('base64')}`;
  const server = createServer((incoming, response) => {
    const { method = '', url = '', headers } = incoming;
    seen.push(`${method} ${url}`);
    if (!mayPass(incoming)) return response.writeHead(407, { 'proxy-authenticate': 'Basic' }).end();
    const { port, pathname } = new URL(url);
    const sending = openRequest({ host: '127.0.0.1', port, path: pathname, method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    sending.on('error', () => response.writeHead(502).end());
    return incoming.pipe(sending);
  });
  server.on('connect', (incoming, socket: Duplex) => {
    seen.push(`CONNECT ${incoming.url}`);
    socket.on('error', () => undefined);
    if (!mayPass(incoming)) return socket.end('HTTP/1.1 407 Proxy Authentication Required\r\n\r\n');
    const far = connect(Number(incoming.url?.split(':').at(-1)), '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
      far.pipe(socket);
      socket.pipe(far);
    });
    sockets.add(far).add(socket);
    far.on('error', () => socket.end('HTTP/1.1 502 Bad Gateway\r\n\r\n'));
    return undefined;
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    seen,
    lock: (wanted) => {
      credentials = wanted;
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      server.closeAllConnections();
    },
  };
}
