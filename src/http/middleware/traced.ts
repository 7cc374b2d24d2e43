import { type Attributes, SpanKind, SpanStatusCode } from '@opentelemetry/api';
import type { MiddlewareHandler } from 'hono';
import { routePath } from 'hono/route';
import { addressOf, currentTraceparent, inSpan } from '../../platform/tracing.ts';
import type { HttpEnv } from '../http-env.ts';

/** Polled all the time by load balancers and scrapers, and not worth a span. */
const UNTRACED: ReadonlySet<string> = new Set(['/livez', '/readyz', '/metrics']);

/**
 * A span for every request, below the caller's own if it sends a `traceparent`.
 * (https://opentelemetry.io/docs/specs/semconv/http/http-spans/#http-server)
 */
export const traced: MiddlewareHandler<HttpEnv> = async (c, next) => {
  if (UNTRACED.has(c.req.path)) return next();
  const { method } = c.req;
  const parent = c.req.header('traceparent') ?? currentTraceparent();
  await inSpan(
    method,
    { kind: SpanKind.SERVER, parent, attributes: requestOf(method, c.req.path, c.req.url) },
    async (span) => {
      await next();
      const route = routePath(c, -1);
      if (!route.endsWith('*')) {
        span.updateName(`${method} ${route}`);
        span.setAttribute('http.route', route);
      }
      const { status } = c.res;
      span.setAttribute('http.response.status_code', status);
      if (status >= 500) span.setAttribute('error.type', String(status)).setStatus({ code: SpanStatusCode.ERROR });
    },
  );
};

/** @param path without the secret that the URL of a page of the queues has */
function requestOf(method: string, path: string, url: string): Attributes {
  return {
    'http.request.method': method,
    'url.scheme': new URL(url).protocol.slice(0, -1),
    'url.path': path,
    ...addressOf(url),
  };
}
