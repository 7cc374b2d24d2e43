import { limitBody } from '../../api/body-limit.ts';
import { mcpRoute } from '../../api/mcp.ts';
import { MAX_CONTENT_BODY_BYTES } from '../../domain/tunables.ts';
import type { HttpDeps } from '../../http/http-deps.ts';
import type { BatonApp } from '../../http/http-env.ts';
import { loadOptional } from '../../platform/optional-packages.ts';

const PATH = mcpRoute.path;
const NEED = { purpose: 'clients of MCP', packages: ['@modelcontextprotocol/server'] };

/** Serves the agents as tools of MCP. MCP's SDK is loaded with the first request. */
export function registerMcpRoute(app: BatonApp, deps: HttpDeps): void {
  app.openAPIRegistry.registerPath(mcpRoute);
  app.post(PATH, limitBody(MAX_CONTENT_BODY_BYTES), async (c) => {
    const { answerMcp } = await loadOptional(NEED, () => import('./answer-mcp.ts'));
    return answerMcp(c, deps);
  });
  // The server begins no messages of its own, and has no state that could be deleted.
  app.on(['GET', 'DELETE'], PATH, (c) => c.body(null, 405, { allow: 'POST' }));
}
