import { connect, type Socket } from 'node:net';

export type HalfBodies = Disposable &
  Readonly<{
    /** Answers by status. */
    answered: ReadonlyMap<string, number>;
    /** Connections that wait, their bodies unfinished. */
    open: () => number;
    /** Connections that were closed without an answer. */
    cut: () => number;
  }>;

type Halves = Readonly<{
  count: number;
  headers?: Readonly<Record<string, string>>;
  /** Bytes that each body says it has, and those that are sent of it. */
  declared: number;
  sent: number;
  /** How many connections are opened at the same time. */
  lanes?: number;
}>;

/** Bytes that a client writes at a time. It stops at the answer. */
const PIECE = Buffer.alloc(65_536, 'x');

/** Opens connections that send half of a body each and then wait. Resolves when each has sent its half or is answered. */
export async function sendHalfBodies(
  url: string,
  path: string,
  { count, headers = {}, declared, sent, lanes = 100 }: Halves,
): Promise<HalfBodies> {
  const { hostname, port } = new URL(url);
  const sockets = new Set<Socket>();
  const answered = new Map<string, number>();
  let cut = 0;
  const named = { host: hostname, 'content-type': 'application/json', 'content-length': String(declared), ...headers };
  const head = [`POST ${path} HTTP/1.1`, ...Object.entries(named).map((pair) => pair.join(': '))].join('\r\n');

  async function open(): Promise<void> {
    const socket = connect({ host: hostname, port: Number(port) });
    sockets.add(socket);
    const over = Promise.withResolvers<void>();
    let status: string | null = null;
    socket.on('data', (chunk: Buffer) => {
      if (status !== null) return;
      status = chunk.toString('latin1', 9, 12);
      answered.set(status, (answered.get(status) ?? 0) + 1);
      over.resolve();
    });
    socket.on('error', () => undefined);
    socket.on('close', () => {
      sockets.delete(socket);
      if (status === null) cut++;
      over.resolve();
    });
    socket.write(`${head}\r\n\r\n`);
    await Promise.race([over.promise, sendRest()]);

    async function sendRest(): Promise<void> {
      for (let left = sent; left > 0 && status === null && !socket.destroyed; left -= PIECE.length) {
        const { promise, resolve } = Promise.withResolvers<void>();
        socket.write(PIECE.subarray(0, left), () => resolve());
        await Promise.race([promise, over.promise]);
      }
    }
  }

  let begun = 0;
  const lane = async (): Promise<void> => {
    while (begun++ < count) await open();
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  return {
    answered,
    open: () => sockets.size,
    cut: () => cut,
    [Symbol.dispose]: () => {
      for (const socket of sockets) socket.destroy();
    },
  };
}
