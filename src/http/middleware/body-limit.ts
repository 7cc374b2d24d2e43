import type { Context, MiddlewareHandler } from 'hono';
import { matchedRoutes } from 'hono/route';
import { MAX_SMALL_BODY_BYTES } from '../../domain/tunables.ts';
import type { HttpEnv } from '../http-env.ts';
import type { ExpectedBody } from '../read-body.ts';

/** Of a route that names no limit: it takes a few short fields. */
const DEFAULT: ExpectedBody = { maxBytes: MAX_SMALL_BODY_BYTES, form: 'text' };

type Limit = (c: Context<HttpEnv>) => ExpectedBody;
const limits = new WeakMap<object, Limit>();

/** The limit of one route's body, which stands among the route's middleware and is read before the body is. */
export function limitBody(
  maxBytes: number | ((c: Context<HttpEnv>) => number),
  form: ExpectedBody['form'] = 'text',
): MiddlewareHandler<HttpEnv> {
  const limit: Limit = (c) => ({ maxBytes: typeof maxBytes === 'number' ? maxBytes : maxBytes(c), form });
  const middleware: MiddlewareHandler<HttpEnv> = (_c, next) => next();
  limits.set(middleware, limit);
  return middleware;
}

/** The body that the route of the request takes; null: no route takes this request. */
export function expectedBody(c: Context<HttpEnv>): ExpectedBody | null {
  let isRouted = false;
  for (const { method, handler } of matchedRoutes(c)) {
    // Middleware of all routes is there for any method.
    if (method !== c.req.method) continue;
    isRouted = true;
    const limit = limits.get(handler);
    if (limit !== undefined) return limit(c);
  }
  return isRouted ? DEFAULT : null;
}
