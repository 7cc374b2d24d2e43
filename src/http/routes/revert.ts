import type { z } from '@hono/zod-openapi';
import { revertedBody, revertSessionRoute, unrevertSessionRoute } from '../../api/revert.ts';
import { formatId } from '../../domain/ids.ts';
import { type Reverted, revertSession, unrevertSession } from '../../store/changes/revert.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';
import { auditRequest } from '../middleware/audit-trail.ts';
import { workOnce } from '../middleware/idempotency.ts';

/** Takes the end of a session's transcript away, and brings it back. */
export function registerRevertRoutes(app: BatonApp, { db, bus }: HttpDeps): void {
  app.openapi(revertSessionRoute, async (c) => {
    const { id: sessionId } = c.req.valid('param');
    const { toMessage } = c.req.valid('json');
    const asked = { route: revertSessionRoute, request: { sessionId, toMessage }, answer: revertedBody };
    let done: Reverted | undefined;
    const { body, headers } = await workOnce(c, db, asked, async (tx) => {
      done = await revertSession(tx, { tenantId: tenantOf(c), sessionId, messageId: toMessage });
      await auditRequest(tx, c, 'session:revert');
      return toBody(sessionId, done);
    });
    if (typeof done?.eventSeq === 'number') bus.announce(sessionId, done.eventSeq);
    return c.json(body, 200, headers);
  });

  app.openapi(unrevertSessionRoute, async (c) => {
    const { id: sessionId } = c.req.valid('param');
    const asked = { route: unrevertSessionRoute, request: { sessionId }, answer: revertedBody };
    let done: Reverted | undefined;
    const { body, headers } = await workOnce(c, db, asked, async (tx) => {
      done = await unrevertSession(tx, { tenantId: tenantOf(c), sessionId });
      await auditRequest(tx, c, 'session:unrevert');
      return toBody(sessionId, done);
    });
    if (typeof done?.eventSeq === 'number') bus.announce(sessionId, done.eventSeq);
    return c.json(body, 200, headers);
  });
}

const toBody = (sessionId: string, { messageId, messages }: Reverted): z.infer<typeof revertedBody> => ({
  sessionId: formatId('session', sessionId),
  messageId: formatId('message', messageId),
  messages,
});
