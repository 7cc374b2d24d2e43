import type { z } from '@hono/zod-openapi';
import {
  type allQuery,
  DEFAULT_DAYS,
  getAllUsageRoute,
  getUsageRoute,
  MAX_DAYS,
  type usageReportBody,
} from '../../api/usage.ts';
import type { UsageDimension } from '../../domain/usage-dimensions.ts';
import { usageOf } from '../../store/db/usage-columns.ts';
import { readUsage, type UsageFilter, type UsageRow } from '../../store/lists/usage.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';

const DAY_MS = 86_400_000;

export function registerUsageRoutes(app: BatonApp, { db }: HttpDeps): void {
  const read = async (
    tenantId: string | null,
    query: z.output<typeof allQuery>,
  ): Promise<z.infer<typeof usageReportBody>> => {
    const { by = ['day'] } = query;
    const until = query.until === undefined ? new Date() : new Date(query.until);
    const earliest = until.getTime() - MAX_DAYS * DAY_MS;
    const since = query.since === undefined ? until.getTime() - DEFAULT_DAYS * DAY_MS : Date.parse(query.since);
    const filter: UsageFilter = { tenantId, by, since: new Date(Math.max(earliest, since)), until };
    const found = await readUsage(db, filter);
    return {
      since: found.since.toISOString(),
      until: until.toISOString(),
      by: [...by],
      complete: found.complete,
      rows: found.rows.map((row) => toRow(row, by)),
    };
  };
  app.openapi(getUsageRoute, async (c) => c.json(await read(tenantOf(c), c.req.valid('query')), 200));
  app.openapi(getAllUsageRoute, async (c) => c.json(await read(null, c.req.valid('query')), 200));
}

function toRow(row: UsageRow, by: readonly UsageDimension[]): z.infer<typeof usageReportBody>['rows'][number] {
  const { runs, failedRuns, steps, costUsd } = row;
  return {
    ...(by.includes('day') && { day: row.day ?? '' }),
    ...(by.includes('agent') && { agent: row.agent ?? '' }),
    ...(by.includes('model') && { model: row.model }),
    ...(by.includes('tenant') && { tenant: row.tenant ?? '' }),
    runs,
    failedRuns,
    steps,
    usage: usageOf(row),
    costUsd,
  };
}
