import { resumedBody, resumeSessionRoute } from '../../api/resume.ts';
import { afterChanged } from '../../commands/after-commit.ts';
import { type ResumedSession, resumeSessionIn } from '../../commands/resume-session.ts';
import { formatId } from '../../domain/ids.ts';
import type { HttpDeps } from '../http-deps.ts';
import type { BatonApp } from '../http-env.ts';
import { workOnce } from '../middleware/idempotency.ts';

export function registerResumeRoutes(app: BatonApp, deps: HttpDeps): void {
  app.openapi(resumeSessionRoute, async (c) => {
    const { id: sessionId } = c.req.valid('param');
    const { limits = {} } = c.req.valid('json') ?? {};
    const submission = { route: resumeSessionRoute, request: { sessionId, limits }, answer: resumedBody };
    let resumed: ResumedSession | undefined;
    const { body, headers } = await workOnce(c, deps.db, submission, async (tx) => {
      resumed = await resumeSessionIn(tx, deps, { actor: c.get('caller'), sessionId, limits });
      return { runId: formatId('run', resumed.runId), status: 'queued' as const };
    });
    if (resumed !== undefined) await afterChanged(deps, sessionId, resumed);
    return c.json(body, 202, headers);
  });
}
