import { startTcpProxy } from '../support/tcp-proxy.ts';

/** A proxy of a Postgres that ends connections in the same packet that reports them as ready. */
export type DeadlyGreeting = AsyncDisposable &
  Readonly<{
    connectionString: string;
    /** Ends all open connections, and the next `count` ones as soon as they are ready. */
    endNext: (count: number) => void;
    /** The number of connections that are still to be ended. */
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
  let left = 0;
  const proxy = await startTcpProxy(target, (client) => {
    let isReady = false;
    return (bytes) => {
      const isGreeting = !isReady && bytes.subarray(-READY.length).equals(READY);
      isReady ||= isGreeting;
      if (!isGreeting || left === 0) return void client.write(bytes);
      left -= 1;
      client.end(Buffer.concat([bytes, fatal()]));
    };
  });
  return {
    connectionString: proxy.via(target),
    endNext(count) {
      left = count;
      proxy.cut();
    },
    left: () => left,
    [Symbol.asyncDispose]: proxy[Symbol.asyncDispose],
  };
}
