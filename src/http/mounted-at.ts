import type { IncomingMessage } from 'node:http';

/**
 * The path at which a program of Express has mounted the API: Express takes it off `url`, and leaves it in `originalUrl`.
 * Empty: at none, or the program does not say.
 */
export function mountedAt(incoming: IncomingMessage | undefined): string {
  if (incoming === undefined || !('originalUrl' in incoming)) return '';
  const { originalUrl, url = '' } = incoming;
  if (typeof originalUrl !== 'string' || url === '' || !originalUrl.endsWith(url)) return '';
  const prefix = originalUrl.slice(0, -url.length);
  return /^(?:\/[\w.~-]+)*$/.test(prefix) ? prefix : '';
}
