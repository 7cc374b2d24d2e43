import type { MiddlewareHandler } from 'hono';
import { routePath } from 'hono/route';
import type { HttpInstruments } from '../../metrics/http-instruments.ts';
import type { HttpEnv } from '../http-env.ts';

/** Label of requests that no route matched. */
const NO_ROUTE = 'none';

export function measured(instruments: HttpInstruments): MiddlewareHandler<HttpEnv> {
  return async (c, next) => {
    const startedAtMs = performance.now();
    await next();
    const pattern = routePath(c, -1);
    const route = pattern.endsWith('*') ? NO_ROUTE : pattern;
    const durationMs = performance.now() - startedAtMs;
    instruments.answered({ method: c.req.method, route, status: c.res.status, durationMs });
  };
}
