import { createRoute, z } from '@hono/zod-openapi';
import { readAgent } from '../../agents/agent.ts';
import { changesOfTools, pinnedToolsSchema } from '../../agents/pinned-tools.ts';
import { formatId } from '../../domain/ids.ts';
import { toolChangesSchema } from '../../domain/run/tool-drift.ts';
import { findSession, readAgentSnapshot } from '../../store/session/sessions.ts';
import { replacePinnedTools } from '../../store/work/pinned-tools.ts';
import { idParams, noQuery } from '../bodies/fields.ts';
import { emptyBody } from '../bodies/json-body.ts';
import { BODY_REFUSED, CONFLICT, jsonOf, NOT_FOUND, REFUSED } from '../bodies/responses.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';
import { auditRequest } from '../middleware/audit-trail.ts';
import { idempotencyHeader, workOnce } from '../middleware/idempotency.ts';
import { untilGone } from '../request-signal.ts';

export const repinnedBody = z
  .object({
    sessionId: z.string(),
    // The domain made its schema before Hono's zod added `openapi`, so this one is built from its fields.
    changes: z
      .array(z.strictObject(toolChangesSchema.shape))
      .openapi({ description: 'Of each server that offers other tools than the session knew, by their own names.' }),
  })
  .openapi('RepinnedTools');

const repin = createRoute({
  method: 'post',
  path: '/v1/sessions/{id}/repin',
  operationId: 'repinTools',
  tags: ['sessions'],
  summary: 'Take the definitions that the MCP servers of a session offer now',
  description:
    'A session keeps the tools that it began with; `tools:drifted` tells when a server offers others. This accepts them, from the next step on.',
  request: {
    params: idParams('session'),
    query: noQuery,
    headers: idempotencyHeader,
    body: emptyBody,
  },
  responses: {
    200: jsonOf(repinnedBody, 'What has changed; nothing, where the servers offer what the session knew.'),
    ...REFUSED,
    ...BODY_REFUSED,
    ...NOT_FOUND,
    ...CONFLICT,
  },
});

/** Accepts the changed tool definitions of MCP servers. */
export function registerRepinRoute(app: BatonApp, { db, bus, pinTools }: HttpDeps): void {
  app.openapi(repin, async (c) => {
    const { id: sessionId } = c.req.valid('param');
    const tenantId = tenantOf(c);
    const { agent_version: agentVersion } = await findSession(db, tenantId, sessionId);
    const agent = readAgent(await readAgentSnapshot(db, tenantId, sessionId));
    // Before the transaction, which must not wait for an MCP server. A replayed answer does not need the result.
    const pinning = pinTools(agent, untilGone(c));
    await Promise.allSettled([pinning]);
    const asked = { route: repin, request: { sessionId }, answer: repinnedBody };
    let eventSeq: number | null = null;
    const { body, headers } = await workOnce(c, db, asked, async (tx) => {
      const { pinnedTools = {} } = await pinning;
      let changes: ReturnType<typeof changesOfTools> = [];
      eventSeq = await replacePinnedTools(tx, { tenantId, sessionId, agentVersion }, (current) => {
        changes = changesOfTools(pinnedToolsSchema.parse(current ?? {}), pinnedTools);
        return { pinnedTools, changes };
      });
      await auditRequest(tx, c, 'session:repin');
      return { sessionId: formatId('session', sessionId), changes };
    });
    if (eventSeq !== null) bus.announce(sessionId, eventSeq);
    return c.json(body, 200, headers);
  });
}
