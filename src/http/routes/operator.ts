import { createRoute, z } from '@hono/zod-openapi';
import { ERROR_CODES } from '../../domain/errors.ts';
import { formatId } from '../../domain/ids.ts';
import { RUN_KINDS, RUN_STATUSES } from '../../domain/run/run.ts';
import { shownStatus, waitOf } from '../../domain/run/waits-for.ts';
import { usageOf } from '../../store/db/usage-columns.ts';
import { listOperatorRuns, type OperatorRun } from '../../store/lists/operator-runs.ts';
import { cursorField, nextCursor } from '../bodies/cursor.ts';
import { limitField, textField } from '../bodies/fields.ts';
import { costBody, jsonOf, nextCursorBody, REFUSED, timeBody, usageBody } from '../bodies/responses.ts';
import { toWaitBody, waitBody } from '../bodies/session-overview.ts';
import type { HttpDeps } from '../http-deps.ts';
import type { BatonApp } from '../http-env.ts';

export const operatorRunBody = z
  .object({
    id: z.string(),
    sessionId: z.string(),
    tenant: z.string(),
    agent: z.string(),
    kind: z.enum(RUN_KINDS),
    status: z.enum(RUN_STATUSES),
    reason: z.string().nullable(),
    errorCode: z.enum(ERROR_CODES).nullable(),
    steps: z.int(),
    usage: usageBody,
    costUsd: costBody,
    createdAt: timeBody,
    startedAt: timeBody.nullable(),
    finishedAt: timeBody.nullable(),
    waitsFor: waitBody
      .nullable()
      .openapi({ description: 'Null also while calls wait for a person: those are content.' }),
  })
  .openapi('OperatorRun');

const list = createRoute({
  method: 'get',
  path: '/v1/operator/runs',
  operationId: 'listAllRuns',
  tags: ['operator'],
  summary: 'List the runs of all tenants, newest first',
  description: 'States, counts and causes, and nothing that was said. The key needs the scope `operator`.',
  request: {
    query: z.strictObject({
      cursor: cursorField('runs'),
      limit: limitField,
      status: z.enum(RUN_STATUSES).optional(),
      tenant: textField(200).min(1).optional(),
    }),
  },
  responses: {
    200: jsonOf(z.object({ runs: z.array(operatorRunBody), nextCursor: nextCursorBody }), 'A page of runs.'),
    ...REFUSED,
  },
});

export function registerOperatorRoutes(app: BatonApp, { db }: HttpDeps): void {
  app.openapi(list, async (c) => {
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
    errorCode: ERROR_CODES.find((known) => known === row.errorCode) ?? null,
    steps: row.steps,
    usage: usageOf(row),
    costUsd: row.costUsd,
    createdAt: row.created_at.toISOString(),
    startedAt: row.startedAt?.toISOString() ?? null,
    finishedAt: row.finishedAt?.toISOString() ?? null,
    waitsFor: toWaitBody(waitOf({ ...row, calls: [] }, now)),
  };
}
