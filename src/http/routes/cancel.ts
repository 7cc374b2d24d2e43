import { createRoute, z } from '@hono/zod-openapi';
import { afterCancelled } from '../../commands/after-commit.ts';
import { formatId } from '../../domain/ids.ts';
import { isTerminalRun, RUN_STATUSES } from '../../domain/run/run.ts';
import { waitForRun } from '../../events/wait-for-run.ts';
import { requestCancel, requestSessionCancel } from '../../store/changes/cancels.ts';
import { inTransaction } from '../../store/db/database.ts';
import { idParams, MAX_WAIT_MS, numberField } from '../bodies/fields.ts';
import { emptyBody, optionalJsonBody } from '../bodies/json-body.ts';
import { BODY_REFUSED, jsonOf, NOT_FOUND, REFUSED } from '../bodies/responses.ts';
import { readRunBody, runBody } from '../bodies/run-body.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';
import { auditRequest, requestEntry } from '../middleware/audit-trail.ts';
import { untilGone } from '../request-signal.ts';

const tags = ['cancel'];

export const cancelledSession = z
  .object({
    sessionId: z.string(),
    runId: z.string().nullable(),
    status: z.enum([...RUN_STATUSES, 'idle']).openapi({ description: 'Of the run; `idle` when none was active.' }),
  })
  .openapi('CancelledSession');

const waitQuery = z.strictObject({
  wait: numberField(0, MAX_WAIT_MS, 'Milliseconds to wait for the run to end; 0 by default.').optional(),
});

const cancelSession = createRoute({
  method: 'post',
  path: '/v1/sessions/{id}/cancel',
  operationId: 'cancelSession',
  tags,
  summary: 'Cancel the active run of a session',
  description: 'Messages that wait stay in the queue, unless it is to be cleared. Nothing to cancel is no error.',
  request: {
    params: idParams('session'),
    query: waitQuery,
    body: optionalJsonBody(z.strictObject({ queue: z.enum(['keep', 'clear']).optional() })),
  },
  responses: {
    200: jsonOf(cancelledSession, 'Nothing runs any more.'),
    202: jsonOf(cancelledSession, 'The worker was told to stop.'),
    ...REFUSED,
    ...BODY_REFUSED,
    ...NOT_FOUND,
  },
});

const cancelRun = createRoute({
  method: 'post',
  path: '/v1/runs/{id}/cancel',
  operationId: 'cancelRun',
  tags,
  summary: 'Cancel a run',
  description: 'A run that has ended stays as it is.',
  request: {
    params: idParams('run'),
    query: waitQuery,
    body: emptyBody,
  },
  responses: {
    200: jsonOf(runBody, 'The run has ended.'),
    202: jsonOf(runBody, 'The worker was told to stop.'),
    ...REFUSED,
    ...BODY_REFUSED,
    ...NOT_FOUND,
  },
});

export function registerCancelRoutes(app: BatonApp, deps: HttpDeps): void {
  const { db } = deps;

  app.openapi(cancelSession, async (c) => {
    const { id } = c.req.valid('param');
    const sessionId = formatId('session', id);
    const { queue = 'keep' } = c.req.valid('json') ?? {};
    const { wait = 0 } = c.req.valid('query');
    const { outcome, eventSeq } = await inTransaction(db, async (tx) => {
      const requested = await requestSessionCancel(tx, tenantOf(c), id, queue === 'clear');
      await auditRequest(tx, c, 'session:cancel');
      return requested;
    });
    deps.bus.announce(id, eventSeq);
    // Its children in the background stop also while it is idle.
    deps.lookAfterChildren?.();
    if (outcome === null) return c.json({ sessionId, runId: null, status: 'idle' as const }, 200);
    await afterCancelled(deps, outcome);
    const { runId } = outcome;
    const { status } = await waitForRun(deps, { tenantId: tenantOf(c), runId, timeoutMs: wait, signal: untilGone(c) });
    return c.json({ sessionId, runId: formatId('run', runId), status }, isTerminalRun(status) ? 200 : 202);
  });

  app.openapi(cancelRun, async (c) => {
    const runId = c.req.valid('param').id;
    const { wait = 0 } = c.req.valid('query');
    const outcome = await requestCancel(db, tenantOf(c), runId, requestEntry(c, 'run:cancel'));
    await afterCancelled(deps, outcome);
    const run = await waitForRun(deps, { tenantId: tenantOf(c), runId, timeoutMs: wait, signal: untilGone(c) });
    return c.json(await readRunBody(db, tenantOf(c), run), isTerminalRun(run.status) ? 200 : 202);
  });
}
