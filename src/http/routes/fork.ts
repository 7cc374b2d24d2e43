import { forkSessionRoute } from '../../api/fork.ts';
import { sessionBody } from '../../api/session-body.ts';
import { forkSession } from '../../store/changes/fork.ts';
import { refuseOverStorage } from '../../store/session/quota.ts';
import { toSessionBody } from '../bodies/session-body.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';
import { auditRequest } from '../middleware/audit-trail.ts';
import { workOnce } from '../middleware/idempotency.ts';

export function registerForkRoute(app: BatonApp, { db, newId, quota }: HttpDeps): void {
  app.openapi(forkSessionRoute, async (c) => {
    const { id: sessionId } = c.req.valid('param');
    const { atMessage, title, metadata } = c.req.valid('json') ?? {};
    const asked = { route: forkSessionRoute, request: { sessionId, atMessage, title, metadata }, answer: sessionBody };
    const { body, headers } = await workOnce(c, db, asked, async (tx) => {
      const at = { tenantId: tenantOf(c), sessionId, forkId: newId(), atMessageId: atMessage ?? null };
      await refuseOverStorage(tx, tenantOf(c), quota);
      await auditRequest(tx, c, 'session:fork');
      return toSessionBody(await forkSession(tx, { ...at, title, metadata }));
    });
    return c.json(body, 201, { location: `/v1/sessions/${body.id}`, ...headers });
  });
}
