import type { z } from '@hono/zod-openapi';
import { listAllErrorGroupsRoute, listErrorGroupsRoute, type query } from '../../api/errors.ts';
import { formatId } from '../../domain/ids.ts';
import { type FailedRun, type FailureGroup, groupFailures } from '../../domain/run/failure-groups.ts';
import { type FailedRunFilter, readFailedRuns } from '../../store/lists/failed-runs.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';

const DAY_MS = 86_400_000;
const LONGEST_MS = 30 * DAY_MS;

const NEWEST_OF_ONE = 100;

export function registerErrorRoutes(app: BatonApp, { db }: HttpDeps): void {
  const read = async (tenantId: string | null, { since, agent, group: groupKey, limit }: z.output<typeof query>) => {
    const earliest = Date.now() - LONGEST_MS;
    const from = since === undefined ? Date.now() - DAY_MS : Math.max(earliest, Date.parse(since));
    const filter: FailedRunFilter = { tenantId, since: new Date(from), ...(agent !== undefined && { agent }) };
    const { runs, complete } = await readFailedRuns(db, filter);
    const visibleRuns = tenantId === null ? runs.map(withoutMessage) : runs;
    const groups =
      groupKey === undefined
        ? groupFailures(visibleRuns)
        : groupFailures(visibleRuns, NEWEST_OF_ONE).filter(({ fingerprint }) => fingerprint === groupKey);
    return { since: filter.since.toISOString(), complete, groups: groups.slice(0, limit) };
  };

  app.openapi(listErrorGroupsRoute, async (c) => {
    const { groups, ...rest } = await read(tenantOf(c), c.req.valid('query'));
    const bodies = groups.map((each) => ({
      ...toGroup(each),
      text: each.text,
      newest: each.newest.map((failed) => ({ ...toRun(failed), message: failed.message })),
    }));
    return c.json({ ...rest, groups: bodies }, 200);
  });

  app.openapi(listAllErrorGroupsRoute, async (c) => {
    const { groups, ...rest } = await read(null, c.req.valid('query'));
    const bodies = groups.map((each) => ({
      ...toGroup(each),
      tenants: each.tenants,
      newest: each.newest.map((failed) => ({ ...toRun(failed), tenant: failed.tenant })),
    }));
    return c.json({ ...rest, groups: bodies }, 200);
  });
}

/** Removes the message, because it may repeat text of the session. */
const withoutMessage = (failed: FailedRun): FailedRun => ({ ...failed, message: '' });

function toGroup({ fingerprint, code, provider, model, agent, count, firstAt, lastAt, hours }: FailureGroup) {
  return {
    fingerprint,
    code,
    provider,
    model,
    agent,
    count,
    firstAt: firstAt.toISOString(),
    lastAt: lastAt.toISOString(),
    hours: hours.map((each) => ({ hour: each.hour.toISOString(), count: each.count })),
  };
}

const toRun = ({ runId, sessionId, at }: FailureGroup['newest'][number]) => ({
  runId: formatId('run', runId),
  sessionId: formatId('session', sessionId),
  at: at.toISOString(),
});
