import { createSessionTokenRoute } from '../../api/tokens.ts';
import { inTransaction } from '../../store/db/database.ts';
import { findSession } from '../../store/session/sessions.ts';
import { ProblemError } from '../bodies/problem.ts';
import type { HttpDeps } from '../http-deps.ts';
import type { BatonApp } from '../http-env.ts';
import { auditRequest } from '../middleware/audit-trail.ts';
import { issueToken } from '../session-tokens.ts';

export function registerTokenRoutes(app: BatonApp, { db }: HttpDeps): void {
  app.openapi(createSessionTokenRoute, async (c) => {
    const { tenantId, keyId, scopes } = c.get('caller');
    const { access, expiresInSeconds, limits = {}, allow } = c.req.valid('json');
    const { id } = c.req.valid('param');
    await findSession(db, tenantId, id);
    // A token may do no more than the key that makes it.
    if (!scopes.includes('read')) throw new ProblemError('forbidden', 'The API key lacks the scope read');
    const expiresAtMs = Date.now() + expiresInSeconds * 1_000;
    const grant = { limits, allow };
    const claims = { sessionId: id, tenantId, keyId, canWrite: access === 'write', grant, expiresAtMs };
    const token = await issueToken(db, claims);
    await inTransaction(db, (tx) => auditRequest(tx, c, 'session:token'));
    return c.json({ token, access, expiresAt: new Date(expiresAtMs).toISOString() }, 201);
  });
}
