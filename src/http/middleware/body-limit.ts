import type { Context } from 'hono';
import { matchedRoutes } from 'hono/route';
import { type ExpectedBody, limitBy } from '../../api/body-limit.ts';
import { MAX_SMALL_BODY_BYTES } from '../../domain/tunables.ts';
import type { BatonApp, HttpEnv } from '../http-env.ts';

/** Of a route that names no limit: it takes a few short fields. */
const DEFAULT: ExpectedBody = { maxBytes: MAX_SMALL_BODY_BYTES, form: 'text' };

/** The most bytes that each route takes, by method and path, of those that name a limit. */
export function limitsOfRoutes({ routes }: Pick<BatonApp, 'routes'>): ReadonlyMap<string, number> {
  return new Map(
    routes.flatMap(({ method, path, handler }) => {
      const limit = limitBy(handler);
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
    const limit = limitBy(handler);
    if (limit !== undefined) return { ...limit, maxBytes: c.get('hook')?.maxBytes ?? limit.maxBytes };
  }
  return isRouted ? DEFAULT : null;
}
