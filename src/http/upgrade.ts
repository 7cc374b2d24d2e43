import { type IncomingMessage, type RequestListener, type Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { type WebSocket, WebSocketServer } from 'ws';
import { MAX_CONTENT_BODY_BYTES } from '../domain/tunables.ts';

/** An accepted WebSocket, and the connection below it. */
export type OpenSocket = Readonly<{ socket: WebSocket; connection: Socket }>;

/** Accepts the WebSocket that a request asks for. Returns what the route answers then. */
export type AcceptSocket = (serve: (open: OpenSocket) => void) => Response;

/** Whether a request asks for a WebSocket. Any other protocol (h2c) is not taken, and the request answered as it is. */
export const asksForSocket = ({ method, headers }: IncomingMessage): boolean =>
  method === 'GET' && headers.upgrade?.toLowerCase() === 'websocket';

type Asked = Readonly<{ connection: Socket; head: Buffer }>;
const askedBy = new WeakMap<IncomingMessage, Asked>();

/**
 * Passes requests for a WebSocket on to the listener, like any other request. Node before 22.21 and 24.9 cannot tell a
 * WebSocket from other protocols, and answers them all without an upgrade.
 * @param server with `asksForSocket` as its `shouldUpgradeCallback`
 */
export function takeUpgrades(server: Server, listener: RequestListener): void {
  if (!('shouldUpgradeCallback' in server)) return;
  server.on('upgrade', (incoming: IncomingMessage, connection: Socket, head: Buffer) => {
    const outgoing = new ServerResponse(incoming);
    askedBy.set(incoming, { connection, head });
    connection.on('error', () => connection.destroy());
    outgoing.shouldKeepAlive = false;
    outgoing.assignSocket(connection);
    // Of an answer that refuses.
    outgoing.once('finish', () => connection.destroySoon());
    listener(incoming, outgoing);
  });
}

const sockets = new WebSocketServer({
  ...{ noServer: true, clientTracking: false },
  maxPayload: MAX_CONTENT_BODY_BYTES,
  // A compressed message could be many times as large as it arrives.
  perMessageDeflate: false,
});

type Upgrade = Readonly<{
  accept: AcceptSocket;
  /** Makes the connection a WebSocket, if the route has accepted it. */
  complete: () => boolean;
}>;

/** The upgrade that a request asks for. Null: it asks for none. */
export function upgradeOf(incoming: IncomingMessage, outgoing: ServerResponse): Upgrade | null {
  const asked = askedBy.get(incoming);
  if (asked === undefined) return null;
  const { connection, head } = asked;
  let serve: ((open: OpenSocket) => void) | null = null;
  return {
    accept(accepted) {
      serve = accepted;
      return new Response(null);
    },
    complete() {
      if (serve === null) return false;
      const serving = serve;
      outgoing.detachSocket(connection);
      if (!connection.destroyed) {
        sockets.handleUpgrade(incoming, connection, head, (socket) => serving({ socket, connection }));
      }
      return true;
    },
  };
}
