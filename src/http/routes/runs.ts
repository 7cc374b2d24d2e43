import { createRoute, z } from '@hono/zod-openapi';
import { RUN_STATUSES } from '../../domain/run/run.ts';
import { waitForRun } from '../../events/wait-for-run.ts';
import { findRun, listRuns, readRuns } from '../../store/session/runs.ts';
import { cursorField, nextCursor } from '../bodies/cursor.ts';
import { idField, idParams, limitField, MAX_WAIT_MS, noQuery, numberField } from '../bodies/fields.ts';
import { idsField } from '../bodies/list-fields.ts';
import { jsonOf, NOT_FOUND, nextCursorBody, REFUSED } from '../bodies/responses.ts';
import { readRunBodies, readRunBody, runBody } from '../bodies/run-body.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';
import { untilGone } from '../request-signal.ts';

const tags = ['runs'];
const DEFAULT_WAIT_MS = 30_000;

const list = createRoute({
  method: 'get',
  path: '/v1/runs',
  operationId: 'listRuns',
  tags,
  summary: 'List runs, newest first',
  description: '`ids` is for lists that read some of their rows again; no other filter applies then.',
  request: {
    query: z.strictObject({
      cursor: cursorField('runs'),
      limit: limitField,
      status: z.enum(RUN_STATUSES).optional(),
      sessionId: idField('session').optional(),
      ids: idsField('run'),
    }),
  },
  responses: {
    200: jsonOf(z.object({ runs: z.array(runBody), nextCursor: nextCursorBody }), 'A page of runs.'),
    ...REFUSED,
  },
});

const get = createRoute({
  method: 'get',
  path: '/v1/runs/{id}',
  operationId: 'getRun',
  tags,
  summary: 'Read a run',
  request: { params: idParams('run'), query: noQuery },
  responses: { 200: jsonOf(runBody, 'The run.'), ...REFUSED, ...NOT_FOUND },
});

const wait = createRoute({
  method: 'get',
  path: '/v1/runs/{id}/wait',
  operationId: 'waitForRun',
  tags,
  summary: 'Wait until a run has ended',
  description:
    'Answers when the run has ended or waits for a person or a client, or with the run as it is when the time is up.',
  request: {
    params: idParams('run'),
    query: z.strictObject({
      timeoutMs: numberField(
        0,
        MAX_WAIT_MS,
        `The longest wait in milliseconds; ${DEFAULT_WAIT_MS} by default.`,
      ).optional(),
    }),
  },
  responses: { 200: jsonOf(runBody, 'The run: look at its status.'), ...REFUSED, ...NOT_FOUND },
});

export function registerRunRoutes(app: BatonApp, deps: HttpDeps): void {
  const { db } = deps;

  app.openapi(list, async (c) => {
    const { cursor, limit, status, sessionId, ids } = c.req.valid('query');
    if (ids !== undefined) {
      const again = await readRuns(db, tenantOf(c), ids);
      return c.json({ runs: await readRunBodies(db, again), nextCursor: null }, 200);
    }
    const rows = await listRuns(db, {
      tenantId: tenantOf(c),
      limit: limit + 1,
      ...(status === undefined ? {} : { status }),
      ...(sessionId === undefined ? {} : { sessionId }),
      ...(cursor === undefined ? {} : { after: cursor }),
    });
    const runs = await readRunBodies(db, rows.slice(0, limit));
    return c.json({ runs, nextCursor: nextCursor('runs', rows, limit) }, 200);
  });

  app.openapi(get, async (c) => {
    const run = await findRun(db, tenantOf(c), c.req.valid('param').id);
    return c.json(await readRunBody(db, tenantOf(c), run), 200);
  });

  app.openapi(wait, async (c) => {
    const runId = c.req.valid('param').id;
    const { timeoutMs = DEFAULT_WAIT_MS } = c.req.valid('query');
    const request = { tenantId: tenantOf(c), runId, timeoutMs, signal: untilGone(c) };
    const run = await waitForRun({ ...deps, onWaiting: c.get('endTurn') }, request);
    return c.json(await readRunBody(db, tenantOf(c), run), 200);
  });
}
