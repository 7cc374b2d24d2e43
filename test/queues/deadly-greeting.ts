import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A way to a Postgres that ends connections with the very packet that says that they are ready. */
export type DeadlyGreeting = AsyncDisposable &
  Readonly<{
    connectionString: string;
    /** Ends the connections that there are, and so many of the next ones as soon as they are ready. */
    endNext: (count: number) => void;
    /** How many are still to be ended. */
    left: () => number;
  }>;

/** ReadyForQuery, outside of a transaction (https://www.postgresql.org/docs/current/protocol-message-formats.html). */
const READY = Buffer.from('Z\0\0\0\x05I', 'latin1');

const FIELDS = 'SFATAL\0C57P01\0Mterminating connection due to administrator command\0\0';

function fatal(): Buffer {
  const head = Buffer.alloc(5);
  head.write('E');
  head.writeInt32BE(FIELDS.length + 4, 1);
  return Buffer.concat([head, Buffer.from(FIELDS)]);
}

export async function startDeadlyGreeting(target: string): Promise<DeadlyGreeting> {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  let left = 0;
  const track = (socket: Socket): Socket => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    return socket.on('error', () => undefined);
  };
  const server = createServer((accepted) => {
    const client = track(accepted);
    const upstream = track(connect(Number(port), hostname));
    let isReady = false;
    client.on('data', (bytes) => upstream.write(bytes));
    upstream.on('data', (bytes: Buffer) => {
      const isGreeting = !isReady && bytes.subarray(-READY.length).equals(READY);
      isReady ||= isGreeting;
      if (!isGreeting || left === 0) return void client.write(bytes);
      left -= 1;
      client.end(Buffer.concat([bytes, fatal()]));
    });
    client.once('close', () => upstream.destroy());
    upstream.once('close', () => client.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = new URL(target);
  url.host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    connectionString: url.href,
    endNext(count) {
      left = count;
      cut();
    },
    left: () => left,
    async [Symbol.asyncDispose]() {
      server.close();
      cut();
      await once(server, 'close');
    },
  };
}
