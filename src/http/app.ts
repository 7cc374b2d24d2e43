import { OpenAPIHono } from '@hono/zod-openapi';
import { createAdminTrail } from './audit-trail.ts';
import { BOARD_PATH } from './board.ts';
import { boundedBody } from './bounded-body.ts';
import { refuseInWords } from './chat/refuse-in-words.ts';
import { createErrorHandler } from './error-handler.ts';
import { guarded } from './guarded.ts';
import { boundHeldOpen } from './held-open.ts';
import type { BatonApp, HttpDeps, HttpEnv } from './http-deps.ts';
import { lookUpFirst } from './look-up-first.ts';
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
import { registerViewRoutes } from './routes/view.ts';
import { traced } from './traced.ts';
import { refuseInvalid, refuseProto } from './validation.ts';

/**
 * The HTTP API as one app, without a server. Every answer that is not a success is a problem of RFC 9457
 * (`application/problem+json`).
 */
export function createApp(deps: HttpDeps): BatonApp {
  const app: BatonApp = new OpenAPIHono<HttpEnv>({ defaultHook: refuseInvalid });
  app.onError(createErrorHandler(deps.log));
  app.notFound(createNotFoundHandler(app));
  app.use(measured(deps.metrics.http), traced);
  app.use('/api/chat', refuseInWords);
  app.use('/api/chat/*', refuseInWords);
  app.use(...guarded(deps));
  if (deps.requestRate !== undefined) app.use(limitRate(deps.requestRate));
  if (deps.heldLimits !== undefined) app.use(boundHeldOpen(deps.heldLimits));
  app.use(`${BOARD_PATH}/*`, createAdminTrail(deps.db));
  app.use(refuseProto, boundedBody, lookUpFirst(deps));
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
  registerViewRoutes(app, deps);
  registerRunRoutes(app, deps);
  registerToolCallRoutes(app, deps);
  registerBlobRoutes(app, deps);
  registerChatRoutes(app, deps);
  registerCompletionRoutes(app, deps);
  registerAgentRoutes(app, deps);
  registerAuditRoutes(app, deps);
  registerHealthRoutes(app, deps);
  registerMetricsRoute(app, deps);
  registerDocsRoutes(app, deps);
  if (deps.board !== undefined) app.route(BOARD_PATH, deps.board);
  return app;
}
