import type { z } from '@hono/zod-openapi';
import { nextCursor } from '../../api/cursor.ts';
import { listAllRunsRoute, type operatorRunBody } from '../../api/operator.ts';
import { ERROR_CODES } from '../../domain/errors.ts';
import { formatId } from '../../domain/ids.ts';
import { shownStatus, waitOf } from '../../domain/run/waits-for.ts';
import { usageOf } from '../../store/db/usage-columns.ts';
import { listOperatorRuns, type OperatorRun } from '../../store/lists/operator-runs.ts';
import { toWaitBody } from '../bodies/session-overview.ts';
import type { HttpDeps } from '../http-deps.ts';
import type { BatonApp } from '../http-env.ts';

export function registerOperatorRoutes(app: BatonApp, { db }: HttpDeps): void {
  app.openapi(listAllRunsRoute, async (c) => {
    const { cursor, limit, status, tenant = null } = c.req.valid('query');
    const rows = await listOperatorRuns(db, {
      tenantId: tenant,
      limit: limit + 1,
      ...(status !== undefined && { status }),
      ...(cursor !== undefined && { after: cursor }),
    });
    const now = new Date();
    const runs = rows.slice(0, limit).map((row) => toBody(row, now));
    return c.json({ runs, nextCursor: nextCursor('runs', rows, limit) }, 200);
  });
}

function toBody(row: OperatorRun, now: Date): z.infer<typeof operatorRunBody> {
  return {
    id: formatId('run', row.id),
    sessionId: formatId('session', row.session_id),
    tenant: row.tenant,
    agent: row.agent,
    kind: row.kind,
    status: shownStatus(row),
    reason: row.reason,
    errorCode: ERROR_CODES.find((code) => code === row.errorCode) ?? null,
    steps: row.steps,
    usage: usageOf(row),
    costUsd: row.costUsd,
    createdAt: row.created_at.toISOString(),
    startedAt: row.startedAt?.toISOString() ?? null,
    finishedAt: row.finishedAt?.toISOString() ?? null,
    waitsFor: toWaitBody(waitOf({ ...row, calls: [] }, now)),
  };
}
