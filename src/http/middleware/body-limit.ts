import type { Context, MiddlewareHandler } from 'hono';
import { matchedRoutes } from 'hono/route';
import { MAX_SMALL_BODY_BYTES } from '../../domain/tunables.ts';
import type { BatonApp, HttpEnv } from '../http-env.ts';
import type { ExpectedBody } from '../read-body.ts';

/** Of a route that names no limit: it takes a few short fields. */
const DEFAULT: ExpectedBody = { maxBytes: MAX_SMALL_BODY_BYTES, form: 'text' };

type Limit = ExpectedBody & Readonly<{ limitOf?: (c: Context<HttpEnv>) => number }>;
const limits = new WeakMap<object, Limit>();

/**
 * The limit of one route's body, which stands among the route's middleware and is read before the body is.
 * @param limitOf the limit of a request, if it differs
 */
export function limitBody(
  maxBytes: number,
  { form = 'text', limitOf }: Partial<Omit<Limit, 'maxBytes'>> = {},
): MiddlewareHandler<HttpEnv> {
  const middleware: MiddlewareHandler<HttpEnv> = (_c, next) => next();
  limits.set(middleware, { maxBytes, form, ...(limitOf !== undefined && { limitOf }) });
  return middleware;
}

/** The most bytes that each route takes, by method and path, of those that name a limit. */
export function limitsOfRoutes({ routes }: Pick<BatonApp, 'routes'>): ReadonlyMap<string, number> {
  return new Map(
    routes.flatMap(({ method, path, handler }) => {
      const limit = limits.get(handler);
      return limit === undefined ? [] : [[`${method} ${path}`, limit.maxBytes] as const];
    }),
  );
}

/** The body that the route of the request takes; null: no route takes this request. */
export function expectedBody(c: Context<HttpEnv>): ExpectedBody | null {
  let isRouted = false;
  for (const { method, handler } of matchedRoutes(c)) {
    // Middleware of all routes is there for any method.
    if (method !== c.req.method) continue;
    isRouted = true;
    const limit = limits.get(handler);
    if (limit !== undefined) return { ...limit, maxBytes: limit.limitOf?.(c) ?? limit.maxBytes };
  }
  return isRouted ? DEFAULT : null;
}
