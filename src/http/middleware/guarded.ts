import type { MiddlewareHandler } from 'hono';
import { requestId } from 'hono/request-id';
import { secureHeaders } from 'hono/secure-headers';
import type { HttpDeps } from '../http-deps.ts';
import type { HttpEnv } from '../http-env.ts';
import { createAuthentication } from './authenticate.ts';
import { hostGuard } from './host-guard.ts';
import type { IdentificationDeps } from './identify.ts';

/** Middleware before the routes of every server: headers of every answer, allowed host names, authentication. */
export function guarded(deps: IdentificationDeps & Pick<HttpDeps, 'newId'>): MiddlewareHandler<HttpEnv>[] {
  return [
    requestId({ generator: deps.newId }),
    answerHeaders,
    securityHeaders,
    onlyErrors,
    hostGuard,
    createAuthentication(deps),
  ];
}

/**
 * No CORS headers, so pages of other origins can read nothing. A page needs its own style and an empty icon; the page
 * of the API and the board set headers of their own.
 */
const securityHeaders = secureHeaders({
  overwrite: false,
  strictTransportSecurity: false,
  xFrameOptions: 'DENY',
  contentSecurityPolicy: {
    defaultSrc: ["'none'"],
    styleSrc: ["'unsafe-inline'"],
    imgSrc: ['data:'],
    baseUri: ["'none'"],
    formAction: ["'none'"],
    frameAncestors: ["'none'"],
  },
});

/** Answers change with the session, hence `no-store`. Answers made without Hono's context get the request's id here. */
const answerHeaders: MiddlewareHandler<HttpEnv> = async (c, next) => {
  await next();
  c.res.headers.set('x-request-id', c.get('requestId'));
  if (!c.res.headers.has('cache-control')) c.res.headers.set('cache-control', 'no-store');
};

/** Hono hands only instances of Error to the error handler. */
const onlyErrors: MiddlewareHandler<HttpEnv> = async (_c, next) => {
  try {
    await next();
  } catch (thrown) {
    throw thrown instanceof Error ? thrown : new Error('something that is no Error was thrown', { cause: thrown });
  }
};
