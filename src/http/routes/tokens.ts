import { createSessionTokenRoute } from '../../api/tokens.ts';
import { issueSessionToken } from '../../commands/issue-token.ts';
import { findSession } from '../../store/session/sessions.ts';
import { ProblemError } from '../bodies/problem.ts';
import type { HttpDeps } from '../http-deps.ts';
import type { BatonApp } from '../http-env.ts';

export function registerTokenRoutes(app: BatonApp, deps: HttpDeps): void {
  app.openapi(createSessionTokenRoute, async (c) => {
    const actor = c.get('caller');
    const { access, expiresInSeconds, limits = {}, allow } = c.req.valid('json');
    const { id: sessionId } = c.req.valid('param');
    await findSession(deps.db, actor.tenantId, sessionId);
    // A token may do no more than the key that makes it.
    if (!actor.scopes.includes('read')) throw new ProblemError('forbidden', 'The API key lacks the scope read');
    const expiresAtMs = Date.now() + expiresInSeconds * 1_000;
    const claims = { canWrite: access === 'write', grant: { limits, allow }, expiresAtMs };
    const token = await issueSessionToken(deps, { actor, sessionId, ...claims });
    return c.json({ token, access, expiresAt: new Date(expiresAtMs).toISOString() }, 201);
  });
}
