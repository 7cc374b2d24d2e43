import type { MiddlewareHandler } from 'hono';
import { cors } from 'hono/cors';
import type { HttpEnv } from '../http-env.ts';

/** Seconds for which a browser remembers that it may send requests. */
const REMEMBERED_S = 600;

/**
 * Lets pages of these origins use the API and read its answers, with a key or token in a header. Cookies and the header
 * of the console are never allowed, so such a page cannot act for a person who is logged in there.
 */
export function crossOrigin(origins: readonly string[]): MiddlewareHandler<HttpEnv> {
  const answer = cors({
    origin: (origin) => (origins.includes(origin) ? origin : null),
    allowMethods: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'],
    allowHeaders: [
      'accept',
      'authorization',
      'content-type',
      'idempotency-key',
      'last-event-id',
      'x-ai-sdk-version',
      'x-api-key',
      'x-baton-agent',
      'x-session-id',
      'mcp-method',
      'mcp-name',
      'mcp-protocol-version',
      'mcp-session-id',
    ],
    exposeHeaders: ['idempotency-replayed', 'retry-after', 'x-request-id', 'x-session-id', 'mcp-session-id'],
    maxAge: REMEMBERED_S,
  });
  return async (c, next) => {
    c.set('isNamedOrigin', origins.includes(c.req.header('origin') ?? ''));
    return answer(c, next);
  };
}
