import { readAgent } from '../../agents/agent.ts';
import { changesOfTools, pinnedToolsSchema } from '../../agents/pinned-tools.ts';
import { repinnedBody, repinToolsRoute } from '../../api/repin.ts';
import { afterEvent } from '../../commands/after-commit.ts';
import { repinToolsIn } from '../../commands/repin-tools.ts';
import { formatId } from '../../domain/ids.ts';
import { findSession, readAgentSnapshot } from '../../store/session/sessions.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';
import { workOnce } from '../middleware/idempotency.ts';
import { untilGone } from '../request-signal.ts';

/** Accepts the changed tool definitions of MCP servers. */
export function registerRepinRoute(app: BatonApp, deps: HttpDeps): void {
  const { db, pinTools } = deps;
  app.openapi(repinToolsRoute, async (c) => {
    const { id: sessionId } = c.req.valid('param');
    const tenantId = tenantOf(c);
    const { agent_version: agentVersion } = await findSession(db, tenantId, sessionId);
    const agent = readAgent(await readAgentSnapshot(db, tenantId, sessionId));
    // Before the transaction, which must not wait for an MCP server. A replayed answer does not need the result.
    const pinning = pinTools(agent, untilGone(c));
    await Promise.allSettled([pinning]);
    const submission = { route: repinToolsRoute, request: { sessionId }, answer: repinnedBody };
    let repinned: Readonly<{ eventSeq: number | null }> = { eventSeq: null };
    const { body, headers } = await workOnce(c, db, submission, async (tx) => {
      const { pinnedTools = {} } = await pinning;
      let changes: ReturnType<typeof changesOfTools> = [];
      repinned = await repinToolsIn(tx, { actor: c.get('caller'), sessionId, agentVersion }, (current) => {
        changes = changesOfTools(pinnedToolsSchema.parse(current ?? {}), pinnedTools);
        return { pinnedTools, changes };
      });
      return { sessionId: formatId('session', sessionId), changes };
    });
    afterEvent(deps, sessionId, repinned);
    return c.json(body, 200, headers);
  });
}
