import { nextCursor } from '../../api/cursor.ts';
import { DEFAULT_WAIT_MS, getRunRoute, listRunsRoute, waitForRunRoute } from '../../api/runs.ts';
import { waitForRun } from '../../events/wait-for-run.ts';
import { findAskingRun, listAskingRuns, readAskingRuns } from '../../store/session/asking-runs.ts';
import { findSessionId } from '../../store/session/sessions.ts';
import { readRunBody, toRunBody } from '../bodies/run-body.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';
import { untilGone } from '../request-signal.ts';

export function registerRunRoutes(app: BatonApp, deps: HttpDeps): void {
  const { db } = deps;

  app.openapi(listRunsRoute, async (c) => {
    const { cursor, limit, status, sessionId, ids } = c.req.valid('query');
    if (ids !== undefined) {
      const again = await readAskingRuns(db, tenantOf(c), ids);
      return c.json({ runs: again.map((run) => toRunBody(run)), nextCursor: null }, 200);
    }
    const rows = await listAskingRuns(db, {
      tenantId: tenantOf(c),
      limit: limit + 1,
      ...(status === undefined ? {} : { status }),
      ...(sessionId === undefined ? {} : { sessionId: await findSessionId(db, tenantOf(c), sessionId) }),
      ...(cursor === undefined ? {} : { after: cursor }),
    });
    const runs = rows.slice(0, limit).map((run) => toRunBody(run));
    return c.json({ runs, nextCursor: nextCursor('runs', rows, limit) }, 200);
  });

  app.openapi(getRunRoute, async (c) => {
    const run = await findAskingRun(db, tenantOf(c), c.req.valid('param').id);
    return c.json(await readRunBody(db, tenantOf(c), run), 200);
  });

  app.openapi(waitForRunRoute, async (c) => {
    const runId = c.req.valid('param').id;
    const { timeoutMs = DEFAULT_WAIT_MS } = c.req.valid('query');
    const request = { tenantId: tenantOf(c), runId, timeoutMs, signal: untilGone(c) };
    const run = await waitForRun({ ...deps, onWaiting: c.get('freeSlot') }, request);
    return c.json(await readRunBody(db, tenantOf(c), run), 200);
  });
}
