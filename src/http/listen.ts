import type { Server as HttpServer } from 'node:http';
import { type AddressInfo, createServer, type ListenOptions, type Server } from 'node:net';
import { BatonError } from '../domain/errors.ts';

type Place = Readonly<{
  host: string;
  /** 0: any free port. */
  port: number;
  /** The setting that names the port, for the error of a port that is in use. */
  portSetting?: string;
}>;

type Listening = Readonly<{
  port: number;
  /** Takes no more connections. Resolves when those that there are have ended. */
  stop: () => Promise<void>;
}>;

/**
 * Connections that the kernel keeps until the process accepts them. With Node's 511 a flood of connections made those of
 * other clients wait for a retransmission, which takes seconds. Linux caps it at `net.core.somaxconn`.
 */
const BACKLOG = 4_096;

/**
 * Listeners of one port. An event loop accepts one connection per listener and round (libuv#3696), so that behind a flood
 * of connections those of other clients wait a round for each that came before them.
 */
const LISTENERS = 16;

/**
 * Opens the port for the server. Where the system lets several listeners share a port (Linux, FreeBSD), there are several.
 * @throws BatonError `config_invalid` when the port cannot be bound
 */
export async function listen(server: HttpServer, place: Place): Promise<Listening> {
  // Listeners that share a port would also share it with another process, and hide that it is taken.
  const port = await tryPort(place);
  try {
    const others = await openShared(server, { host: place.host, port });
    return { port, stop: async () => void (await Promise.all([server, ...others].map(end))) };
  } catch (cause) {
    throw cannotListen(place, cause);
  }
}

/**
 * Binds the port, and lets go of it.
 * @returns the port that was bound
 * @throws BatonError `config_invalid` when it cannot be bound
 */
export async function tryPort(place: Place): Promise<number> {
  const server = createServer();
  try {
    const { port } = await open(server, { host: place.host, port: place.port });
    await end(server);
    return port;
  } catch (cause) {
    throw cannotListen(place, cause);
  }
}

function cannotListen({ host, port, portSetting }: Place, cause: unknown): BatonError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  const isTaken = cause instanceof Error && 'code' in cause && cause.code === 'EADDRINUSE';
  const advice = isTaken && portSetting !== undefined ? `; end what listens there, or set ${portSetting}` : '';
  return new BatonError('config_invalid', `cannot listen on ${host}:${port}: ${reason}${advice}`, { cause });
}

/** @returns the listeners beside the server's own */
async function openShared(server: HttpServer, place: Place): Promise<readonly Server[]> {
  try {
    await open(server, { ...place, reusePort: true });
  } catch (error) {
    if (!isUnsupported(error)) throw error;
    await open(server, place);
    return [];
  }
  // As the connections of an HTTP server are.
  const options = { allowHalfOpen: true, noDelay: true };
  const others = Array.from({ length: LISTENERS - 1 }, () => createServer(options));
  for (const other of others) other.on('connection', (socket) => server.emit('connection', socket));
  await Promise.all(others.map((other) => open(other, { ...place, reusePort: true })));
  return others;
}

const isUnsupported = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && (error.code === 'ENOTSUP' || error.code === 'EINVAL');

function open(server: Server, options: ListenOptions): Promise<AddressInfo> {
  const { promise, resolve, reject } = Promise.withResolvers<AddressInfo>();
  server.once('error', reject);
  server.listen({ ...options, backlog: BACKLOG }, () => {
    server.off('error', reject);
    const address = server.address();
    if (address === null || typeof address === 'string') return reject(new Error('not a TCP address'));
    resolve(address);
  });
  return promise;
}

function end(server: Server): Promise<void> {
  return new Promise((resolve) => void server.close(() => resolve()));
}
