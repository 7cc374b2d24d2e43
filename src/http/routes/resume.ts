import { resumedBody, resumeSessionRoute } from '../../api/resume.ts';
import { afterChanged } from '../../commands/after-commit.ts';
import { formatId } from '../../domain/ids.ts';
import { limitsFor } from '../../domain/run/session-token.ts';
import { type ResumedSession, resumeSession } from '../../store/changes/resume.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';
import { auditRequest } from '../middleware/audit-trail.ts';
import { workOnce } from '../middleware/idempotency.ts';

export function registerResumeRoutes(app: BatonApp, deps: HttpDeps): void {
  app.openapi(resumeSessionRoute, async (c) => {
    const { id: sessionId } = c.req.valid('param');
    const { limits = {} } = c.req.valid('json') ?? {};
    const asked = { route: resumeSessionRoute, request: { sessionId, limits }, answer: resumedBody };
    let resumed: ResumedSession | undefined;
    const { body, headers } = await workOnce(c, deps.db, asked, async (tx) => {
      const ids = { tenantId: tenantOf(c), sessionId, runId: deps.newId() };
      resumed = await resumeSession(tx, {
        ...ids,
        ...limitsFor(c.get('caller').session?.grant, limits),
        quota: deps.quota,
      });
      await auditRequest(tx, c, 'session:resume');
      return { runId: formatId('run', resumed.runId), status: 'queued' as const };
    });
    if (resumed !== undefined) await afterChanged(deps, sessionId, resumed);
    return c.json(body, 202, headers);
  });
}
