import { createRoute, z } from '@hono/zod-openapi';
import { afterChanged } from '../../commands/after-commit.ts';
import { formatId } from '../../domain/ids.ts';
import { RUN_STATUSES } from '../../domain/run/run.ts';
import { limitsFor } from '../../domain/run/session-token.ts';
import { type ResumedSession, resumeSession } from '../../store/changes/resume.ts';
import { idParams, noQuery } from '../bodies/fields.ts';
import { optionalJsonBody } from '../bodies/json-body.ts';
import { limitsBody } from '../bodies/limits-body.ts';
import { BODY_REFUSED, CONFLICT, jsonOf, NOT_FOUND, REFUSED } from '../bodies/responses.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';
import { auditRequest } from '../middleware/audit-trail.ts';
import { idempotencyHeader, workOnce } from '../middleware/idempotency.ts';

export const resumedBody = z.object({ runId: z.string(), status: z.enum(RUN_STATUSES) }).openapi('ResumedSession');

const resume = createRoute({
  method: 'post',
  path: '/v1/sessions/{id}/resume',
  operationId: 'resumeSession',
  tags: ['messages'],
  summary: 'Go on where a session stopped',
  description:
    'Takes up messages that a failed or cancelled run left behind, or goes on without any where the last run failed, was cancelled or reached a limit. While the session only tidies itself up, the run follows that. It has the limits that the run was given which stopped, counted anew, but for those that are named here.',
  request: {
    params: idParams('session'),
    query: noQuery,
    headers: idempotencyHeader,
    body: optionalJsonBody(z.strictObject({ limits: limitsBody.optional() }).openapi('Resume')),
  },
  responses: {
    202: jsonOf(resumedBody, 'A run goes on with it.'),
    ...REFUSED,
    ...BODY_REFUSED,
    ...NOT_FOUND,
    ...CONFLICT,
  },
});

export function registerResumeRoutes(app: BatonApp, deps: HttpDeps): void {
  app.openapi(resume, async (c) => {
    const { id: sessionId } = c.req.valid('param');
    const { limits = {} } = c.req.valid('json') ?? {};
    const asked = { route: resume, request: { sessionId, limits }, answer: resumedBody };
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
