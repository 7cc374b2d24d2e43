import { cancelRunRoute, cancelSessionRoute } from '../../api/cancel.ts';
import { cancelRun, cancelSession } from '../../commands/cancel.ts';
import { formatId } from '../../domain/ids.ts';
import { isTerminalRun } from '../../domain/run/run.ts';
import { waitForRun } from '../../events/wait-for-run.ts';
import { readRunBody } from '../bodies/run-body.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';
import { untilGone } from '../request-signal.ts';

export function registerCancelRoutes(app: BatonApp, deps: HttpDeps): void {
  const { db } = deps;

  app.openapi(cancelSessionRoute, async (c) => {
    const { id } = c.req.valid('param');
    const sessionId = formatId('session', id);
    const { queue = 'keep' } = c.req.valid('json') ?? {};
    const { wait = 0 } = c.req.valid('query');
    const request = { actor: c.get('caller'), sessionId: id, clearsQueue: queue === 'clear' };
    const outcome = await cancelSession(deps, request);
    if (outcome === null) return c.json({ sessionId, runId: null, status: 'idle' as const }, 200);
    const { runId } = outcome;
    const { status } = await waitForRun(deps, { tenantId: tenantOf(c), runId, timeoutMs: wait, signal: untilGone(c) });
    return c.json({ sessionId, runId: formatId('run', runId), status }, isTerminalRun(status) ? 200 : 202);
  });

  app.openapi(cancelRunRoute, async (c) => {
    const runId = c.req.valid('param').id;
    const { wait = 0 } = c.req.valid('query');
    await cancelRun(deps, { actor: c.get('caller'), runId });
    const run = await waitForRun(deps, { tenantId: tenantOf(c), runId, timeoutMs: wait, signal: untilGone(c) });
    return c.json(await readRunBody(db, tenantOf(c), run), isTerminalRun(run.status) ? 200 : 202);
  });
}
