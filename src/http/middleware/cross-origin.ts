import type { MiddlewareHandler } from 'hono';
import { cors } from 'hono/cors';
import { CONSOLE_HEADER } from '../../domain/access.ts';
import type { HttpEnv } from '../http-env.ts';

/** Seconds for which a browser remembers that it may send requests. */
const REMEMBERED_S = 600;

/** A header that a page may ask for has a name of this form. */
const HEADER_NAME = /^[a-z0-9!#$%&'*+.^_`|~-]{1,128}$/;

/** More names than any library sends; the rest of a longer list is not allowed. */
const MAX_HEADERS = 128;

/** Headers that are never allowed: those by which the console shows that it sends a request itself. */
const NEVER: ReadonlySet<string> = new Set([CONSOLE_HEADER, 'cookie']);

/**
 * Lets pages of these origins use the API and read its answers, with a key or token in a header. A preflight allows
 * the headers that it asks for, because libraries send many of their own. Cookies and the header of the console are
 * never allowed, so such a page cannot act for a person who is logged in there.
 */
export function crossOrigin(origins: readonly string[]): MiddlewareHandler<HttpEnv> {
  const answer = (allowHeaders: string[]) =>
    cors({
      origin: (origin) => (origins.includes(origin) ? origin : null),
      allowMethods: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'],
      allowHeaders,
      exposeHeaders: EXPOSED,
      maxAge: REMEMBERED_S,
    });
  const answerOthers = answer([]);
  return async (c, next) => {
    const isNamed = origins.includes(c.req.header('origin') ?? '');
    c.set('isNamedOrigin', isNamed);
    if (c.req.method !== 'OPTIONS') return answerOthers(c, next);
    // Without it a request is no preflight, and gets the methods of its path.
    if (c.req.header('access-control-request-method') === undefined) return next();
    return answer(isNamed ? allowedOf(c.req.header('access-control-request-headers')) : ['accept'])(c, next);
  };
}

/** The headers of the list that may be sent. Never empty: Hono would allow any. */
function allowedOf(asked = ''): string[] {
  const names = asked.split(',', MAX_HEADERS).map((name) => name.trim().toLowerCase());
  return ['authorization', ...names.filter((name) => HEADER_NAME.test(name) && !NEVER.has(name))];
}

/** Headers of answers that pages may read. */
const EXPOSED = [
  'accept-ranges',
  'allow',
  'content-disposition',
  'content-length',
  'content-range',
  'etag',
  'idempotency-replayed',
  'location',
  'mcp-session-id',
  'ratelimit-limit',
  'ratelimit-remaining',
  'ratelimit-reset',
  'retry-after',
  'www-authenticate',
  'x-request-id',
  'x-session-id',
];
