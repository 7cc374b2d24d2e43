import type { IncomingMessage } from 'node:http';

// What a backend on loopback has to look at before it takes a request: any web page that a browser of this machine
// shows can send it one.

const LOOPBACK_NAMES: ReadonlySet<string> = new Set(['127.0.0.1', 'localhost', '[::1]']);

/**
 * Whether a request is addressed to this machine, and comes from a page of this backend or from no page. A page of
 * another site says its origin, and a name of its own may lead to this address (DNS rebinding).
 */
export function isOwn({ headers: { host = '', origin } }: IncomingMessage): boolean {
  const own = URL.canParse(`http://${host}`) ? new URL(`http://${host}`) : null;
  return own !== null && LOOPBACK_NAMES.has(own.hostname) && (origin === undefined || origin === own.origin);
}

/** Whether the body is JSON. A browser asks before it lets a page of another site send that (CORS). */
export const isJson = ({ headers }: IncomingMessage): boolean =>
  /^application\/json\s*(;|$)/i.test(headers['content-type'] ?? '');

/** The body; null: it is larger than that. */
export async function readBody(request: IncomingMessage, maxBytes: number): Promise<Buffer | null> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request) {
    bytes += chunk.length;
    if (bytes <= maxBytes) chunks.push(chunk);
    // A client that still sends would not read the answer, so it may send a little more than it should.
    else if (bytes > 2 * maxBytes) break;
  }
  return bytes <= maxBytes ? Buffer.concat(chunks) : null;
}
