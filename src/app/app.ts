import { OpenAPIHono } from '@hono/zod-openapi';
import { getPath } from 'hono/utils/url';
import { BOARD_PATH, pathWithoutSecret } from '../domain/access.ts';
import { answerBudget } from '../domain/answer-budget.ts';
import { bodyBudget } from '../domain/body-budget.ts';
import { findHook, HOOK_PATH, registerHookRoute } from '../facades/hooks/take-hook.ts';
import { registerMcpRoute } from '../facades/mcp/mcp.ts';
import { registerCompletionRoutes } from '../facades/openai/completions.ts';
import { registerResponseSocket } from '../facades/openai/response-socket.ts';
import { registerResponseRoutes } from '../facades/openai/responses.ts';
import { registerChatRoutes } from '../facades/ui/chat.ts';
import { refuseInWords } from '../facades/ui/refuse-in-words.ts';
import { refuseInvalid, refuseProto } from '../http/bodies/validation.ts';
import type { HttpDeps } from '../http/http-deps.ts';
import type { BatonApp, HttpEnv } from '../http/http-env.ts';
import { createIntake } from '../http/intake.ts';
import { createAdminTrail } from '../http/middleware/audit-trail.ts';
import { boundedBody } from '../http/middleware/bounded-body.ts';
import { crossOrigin } from '../http/middleware/cross-origin.ts';
import { decodedBody } from '../http/middleware/decoded-body.ts';
import { createErrorHandler } from '../http/middleware/error-handler.ts';
import { guarded } from '../http/middleware/guarded.ts';
import { boundHeldOpen } from '../http/middleware/held-open.ts';
import { keysInPaths } from '../http/middleware/keys-in-paths.ts';
import { lookUpFirst } from '../http/middleware/look-up-first.ts';
import { measured } from '../http/middleware/measured.ts';
import { createNotFoundHandler } from '../http/middleware/not-found.ts';
import { limitRate } from '../http/middleware/request-rate.ts';
import { takeRequestSlots } from '../http/middleware/request-slots.ts';
import { traced } from '../http/middleware/traced.ts';
import { createWrongKeys } from '../http/middleware/wrong-keys.ts';
import { boundAnswers, createOutflow } from '../http/outflow.ts';
import { registerActivityRoutes } from '../http/routes/activity.ts';
import { registerAgentSwitchRoute } from '../http/routes/agent-switch.ts';
import { registerAgentRoutes } from '../http/routes/agents.ts';
import { registerAuditRoutes } from '../http/routes/audit.ts';
import { registerBlobRoutes } from '../http/routes/blobs.ts';
import { registerCancelRoutes } from '../http/routes/cancel.ts';
import { openConsole, registerConsoleRoutes } from '../http/routes/console.ts';
import { registerContextRoutes } from '../http/routes/context.ts';
import { registerDocsRoutes } from '../http/routes/docs.ts';
import { registerErrorRoutes } from '../http/routes/errors.ts';
import { registerEventRoutes } from '../http/routes/events.ts';
import { registerForkRoute } from '../http/routes/fork.ts';
import { registerHealthRoutes } from '../http/routes/health.ts';
import { registerInboxRoutes } from '../http/routes/inbox.ts';
import { registerKeyRoutes } from '../http/routes/keys.ts';
import { registerLoginRoutes } from '../http/routes/login.ts';
import { registerMessageRoutes } from '../http/routes/messages.ts';
import { registerMetricsRoute } from '../http/routes/metrics.ts';
import { registerOperatorRoutes } from '../http/routes/operator.ts';
import { registerQueueRoutes } from '../http/routes/queue.ts';
import { registerRepinRoute } from '../http/routes/repin.ts';
import { registerResumeRoutes } from '../http/routes/resume.ts';
import { registerRevertRoutes } from '../http/routes/revert.ts';
import { registerRunRoutes } from '../http/routes/runs.ts';
import { registerScheduleRoutes } from '../http/routes/schedules.ts';
import { registerSessionRoutes } from '../http/routes/sessions.ts';
import { registerStepRequestRoutes } from '../http/routes/step-request.ts';
import { registerStepRoutes } from '../http/routes/steps.ts';
import { registerTokenRoutes } from '../http/routes/tokens.ts';
import { registerToolCallRoutes } from '../http/routes/tool-calls.ts';
import { registerUsageRoutes } from '../http/routes/usage.ts';
import { registerViewRoutes } from '../http/routes/view.ts';
import { registerWebhookDeliveryRoutes } from '../http/routes/webhook-deliveries.ts';
import { registerWebhookRoutes } from '../http/routes/webhooks.ts';
import { registerWorkerRoutes } from '../http/routes/workers.ts';
import { CONSOLE_FOLDER } from '../platform/root-folder.ts';

/** The documentation of the API lists the routes in this order. */
const ROUTES: readonly ((app: BatonApp, deps: HttpDeps) => void)[] = [
  registerSessionRoutes,
  registerAgentSwitchRoute,
  registerRepinRoute,
  registerRevertRoutes,
  registerForkRoute,
  registerMessageRoutes,
  registerQueueRoutes,
  registerResumeRoutes,
  registerEventRoutes,
  registerCancelRoutes,
  registerContextRoutes,
  registerViewRoutes,
  registerRunRoutes,
  registerStepRoutes,
  registerStepRequestRoutes,
  registerToolCallRoutes,
  registerBlobRoutes,
  registerHookRoute,
  registerChatRoutes,
  registerCompletionRoutes,
  registerResponseRoutes,
  registerResponseSocket,
  registerMcpRoute,
  registerAgentRoutes,
  registerActivityRoutes,
  registerErrorRoutes,
  registerInboxRoutes,
  registerOperatorRoutes,
  registerUsageRoutes,
  registerWorkerRoutes,
  registerScheduleRoutes,
  registerWebhookRoutes,
  registerWebhookDeliveryRoutes,
  registerAuditRoutes,
  registerKeyRoutes,
  registerTokenRoutes,
  registerHealthRoutes,
  registerMetricsRoute,
  registerLoginRoutes,
];

/** The HTTP API without a server. Every error response is a problem of RFC 9457 (`application/problem+json`). */
export function createApp(baseDeps: HttpDeps): BatonApp {
  const intake = baseDeps.intake ?? createIntake(bodyBudget(0));
  const deps: HttpDeps = { ...baseDeps, intake, wrongKeys: baseDeps.wrongKeys ?? createWrongKeys() };
  const outflow = deps.outflow ?? createOutflow(answerBudget(0));
  deps.metrics.http.measureBodies(intake.heldBytes);
  deps.metrics.http.measureAnswers(outflow.heldBytes);
  const app: BatonApp = new OpenAPIHono<HttpEnv>({
    defaultHook: refuseInvalid,
    getPath: (request) => pathWithoutSecret(getPath(request)),
  });
  app.onError(createErrorHandler(deps.log));
  app.notFound(createNotFoundHandler(app));
  if (deps.openRequests !== undefined) app.use(deps.openRequests.track);
  app.use(measured(deps.metrics.http), traced);
  if (deps.corsOrigins !== undefined && deps.corsOrigins.length > 0) app.use(crossOrigin(deps.corsOrigins));
  app.use('/api/chat', refuseInWords);
  app.use('/api/chat/*', refuseInWords);
  app.use(...guarded(deps), boundAnswers(outflow, deps.log));
  if (deps.requestRate !== undefined) app.use(limitRate(deps.requestRate));
  if (deps.heldLimits !== undefined) app.use(boundHeldOpen(deps.heldLimits));
  app.use(`${BOARD_PATH}/*`, createAdminTrail(deps.db));
  app.use('/v1/sessions/:id/*', keysInPaths(deps, 'session'));
  app.use('/v1/webhooks/:id/*', keysInPaths(deps, 'webhook'));
  app.use('/v1/schedules/:id/*', keysInPaths(deps, 'schedule'));
  app.use(refuseProto);
  app.use(HOOK_PATH, findHook(deps.hooks ?? new Map()));
  app.use(boundedBody(intake));
  if (deps.tenantRequests !== undefined) app.use(takeRequestSlots(deps.tenantRequests));
  app.use(decodedBody, lookUpFirst(deps));
  for (const register of ROUTES) register(app, deps);
  const built = openConsole(deps.consoleFolder ?? CONSOLE_FOLDER);
  registerConsoleRoutes(app, built, deps);
  registerDocsRoutes(app, deps, built);
  if (deps.board !== undefined) app.route(BOARD_PATH, deps.board);
  return app;
}
