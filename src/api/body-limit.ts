import type { MiddlewareHandler } from 'hono';

/** Largest body of a route, and its form. JSON is text; a hook gets the bytes, which its signature covers. */
export type ExpectedBody = Readonly<{ maxBytes: number; form: 'text' | 'bytes' }>;

const limits = new WeakMap<object, ExpectedBody>();

/** The limit of one route's body, which stands among the route's middleware and is read before the body is. */
export function limitBody(maxBytes: number, form: ExpectedBody['form'] = 'text'): MiddlewareHandler<NoEnv> {
  const middleware: MiddlewareHandler<NoEnv> = (_c, next) => next();
  limits.set(middleware, { maxBytes, form });
  return middleware;
}

/** The limit that `limitBody` made this middleware for. Undefined: the function is no such middleware. */
export function limitBy(middleware: object): ExpectedBody | undefined {
  return limits.get(middleware);
}

/** The middleware reads nothing of a request, so it fits any app. */
type NoEnv = Record<never, never>;
