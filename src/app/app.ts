import { OpenAPIHono } from '@hono/zod-openapi';
import { registerCompletionRoutes } from '../facades/openai/completions.ts';
import { registerChatRoutes } from '../facades/ui/chat.ts';
import { refuseInWords } from '../facades/ui/refuse-in-words.ts';
import { BOARD_PATH } from '../http/board.ts';
import { refuseInvalid, refuseProto } from '../http/bodies/validation.ts';
import type { HttpDeps } from '../http/http-deps.ts';
import type { BatonApp, HttpEnv } from '../http/http-env.ts';
import { createAdminTrail } from '../http/middleware/audit-trail.ts';
import { boundedBody } from '../http/middleware/bounded-body.ts';
import { createErrorHandler } from '../http/middleware/error-handler.ts';
import { guarded } from '../http/middleware/guarded.ts';
import { boundHeldOpen } from '../http/middleware/held-open.ts';
import { lookUpFirst } from '../http/middleware/look-up-first.ts';
import { measured } from '../http/middleware/measured.ts';
import { createNotFoundHandler } from '../http/middleware/not-found.ts';
import { limitRate } from '../http/middleware/request-rate.ts';
import { traced } from '../http/middleware/traced.ts';
import { registerAgentSwitchRoute } from '../http/routes/agent-switch.ts';
import { registerAgentRoutes } from '../http/routes/agents.ts';
import { registerAuditRoutes } from '../http/routes/audit.ts';
import { registerBlobRoutes } from '../http/routes/blobs.ts';
import { registerCancelRoutes } from '../http/routes/cancel.ts';
import { registerContextRoutes } from '../http/routes/context.ts';
import { registerDocsRoutes } from '../http/routes/docs.ts';
import { registerEventRoutes } from '../http/routes/events.ts';
import { registerForkRoute } from '../http/routes/fork.ts';
import { registerHealthRoutes } from '../http/routes/health.ts';
import { registerMessageRoutes } from '../http/routes/messages.ts';
import { registerMetricsRoute } from '../http/routes/metrics.ts';
import { registerQueueRoutes } from '../http/routes/queue.ts';
import { registerRepinRoute } from '../http/routes/repin.ts';
import { registerResumeRoutes } from '../http/routes/resume.ts';
import { registerRunRoutes } from '../http/routes/runs.ts';
import { registerSessionRoutes } from '../http/routes/sessions.ts';
import { registerToolCallRoutes } from '../http/routes/tool-calls.ts';
import { registerViewRoutes } from '../http/routes/view.ts';

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
