import { OpenAPIHono } from '@hono/zod-openapi';
import type { MiddlewareHandler } from 'hono';
import { requestId } from 'hono/request-id';
import { secureHeaders } from 'hono/secure-headers';
import { createAdminTrail } from './audit-trail.ts';
import { createAuthentication } from './authenticate.ts';
import { BOARD_PATH } from './board.ts';
import { boundedBody } from './bounded-body.ts';
import { createErrorHandler } from './error-handler.ts';
import { hostGuard } from './host-guard.ts';
import type { BatonApp, HttpDeps, HttpEnv } from './http-deps.ts';
import { measured } from './measured.ts';
import { createNotFoundHandler } from './not-found.ts';
import { limitRate } from './request-rate.ts';
import { registerAgentSwitchRoute } from './routes/agent-switch.ts';
import { registerAgentRoutes } from './routes/agents.ts';
import { registerAuditRoutes } from './routes/audit.ts';
import { registerBlobRoutes } from './routes/blobs.ts';
import { registerCancelRoutes } from './routes/cancel.ts';
import { registerChatRoutes } from './routes/chat.ts';
import { registerCompletionRoutes } from './routes/completions.ts';
import { registerContextRoutes } from './routes/context.ts';
import { registerDocsRoutes } from './routes/docs.ts';
import { registerEventRoutes } from './routes/events.ts';
import { registerForkRoute } from './routes/fork.ts';
import { registerHealthRoutes } from './routes/health.ts';
import { registerMessageRoutes } from './routes/messages.ts';
import { registerMetricsRoute } from './routes/metrics.ts';
import { registerQueueRoutes } from './routes/queue.ts';
import { registerRepinRoute } from './routes/repin.ts';
import { registerResumeRoutes } from './routes/resume.ts';
import { registerRunRoutes } from './routes/runs.ts';
import { registerSessionRoutes } from './routes/sessions.ts';
import { registerToolCallRoutes } from './routes/tool-calls.ts';
import { traced } from './traced.ts';
import { refuseInvalid } from './validation.ts';

/**
 * The HTTP API as one app, without a server. Every answer that is not a success is a problem of RFC 9457
 * (`application/problem+json`).
 */
export function createApp(deps: HttpDeps): BatonApp {
  const app: BatonApp = new OpenAPIHono<HttpEnv>({ defaultHook: refuseInvalid });
  app.onError(createErrorHandler(deps.log));
  app.notFound(createNotFoundHandler(app));
  app.use(measured(deps.metrics.http), traced);
  app.use(requestId({ generator: deps.newId }), answerHeaders, securityHeaders, onlyErrors);
  app.use(hostGuard, createAuthentication(deps));
  if (deps.requestRate !== undefined) app.use(limitRate(deps.requestRate));
  app.use(`${BOARD_PATH}/*`, createAdminTrail(deps.db));
  app.use(boundedBody);
  registerSessionRoutes(app, deps);
  registerAgentSwitchRoute(app, deps);
  registerRepinRoute(app, deps);
  registerForkRoute(app, deps);
  registerMessageRoutes(app, deps);
  registerQueueRoutes(app, deps);
  registerResumeRoutes(app, deps);
  registerEventRoutes(app, deps);
  registerCancelRoutes(app, deps);
  registerContextRoutes(app, deps);
  registerRunRoutes(app, deps);
  registerToolCallRoutes(app, deps);
  registerBlobRoutes(app, deps);
  registerChatRoutes(app, deps);
  registerCompletionRoutes(app, deps);
  registerAgentRoutes(app, deps);
  registerAuditRoutes(app, deps);
  registerHealthRoutes(app, deps);
  registerMetricsRoute(app, deps);
  registerDocsRoutes(app);
  if (deps.board !== undefined) app.route(BOARD_PATH, deps.board);
  return app;
}

/**
 * No CORS headers: pages of other origins read nothing. The documentation page needs its own style and nothing else; the
 * board of the queues has headers of its own.
 */
const securityHeaders = secureHeaders({
  overwrite: false,
  strictTransportSecurity: false,
  xFrameOptions: 'DENY',
  contentSecurityPolicy: {
    defaultSrc: ["'none'"],
    styleSrc: ["'unsafe-inline'"],
    baseUri: ["'none'"],
    formAction: ["'none'"],
    frameAncestors: ["'none'"],
  },
});

/**
 * Answers change with the session: nothing between here and the caller keeps them. The request's id goes on every answer,
 * also on those that are made without Hono's context.
 */
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
