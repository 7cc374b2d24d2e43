import type { IncomingMessage } from 'node:http';

// Checks that a backend on loopback must make before it accepts a request: any web page in a browser of this machine
// can send it one.

const LOOPBACK_NAMES: ReadonlySet<string> = new Set(['127.0.0.1', 'localhost', '[::1]']);

/**
 * Whether a request is addressed to this machine and comes from this backend's page or from no page. Foreign pages send
 * their origin; with DNS rebinding they send their own host name.
 */
export function isOwn({ headers: { host = '', origin } }: IncomingMessage): boolean {
  const own = URL.canParse(`http://${host}`) ? new URL(`http://${host}`) : null;
  return own !== null && LOOPBACK_NAMES.has(own.hostname) && (origin === undefined || origin === own.origin);
}

/** Whether the body is JSON. A browser asks for permission (CORS) before a foreign page may send JSON. */
export const isJson = ({ headers }: IncomingMessage): boolean =>
  /^application\/json\s*(;|$)/i.test(headers['content-type'] ?? '');

/** Reads the body; null: it is larger than `maxBytes`. */
export async function readBody(request: IncomingMessage, maxBytes: number): Promise<Buffer | null> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request) {
    bytes += chunk.length;
    if (bytes <= maxBytes) chunks.push(chunk);
    // A client that still sends would not read the answer, so the limit has a margin.
    else if (bytes > 2 * maxBytes) break;
  }
  return bytes <= maxBytes ? Buffer.concat(chunks) : null;
}
