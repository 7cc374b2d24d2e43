import { createRoute, z } from '@hono/zod-openapi';
import { usageOf } from '../../store/db/usage-columns.ts';
import {
  readUsage,
  USAGE_DIMENSIONS,
  type UsageDimension,
  type UsageFilter,
  type UsageRow,
} from '../../store/lists/usage.ts';
import { timeField } from '../bodies/fields.ts';
import { costBody, jsonOf, REFUSED, timeBody, usageBody } from '../bodies/responses.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';

const DAY_MS = 86_400_000;
const DEFAULT_DAYS = 30;
const MAX_DAYS = 92;

const OF_TENANT = ['day', 'agent', 'model'] as const;

/** Names of dimensions with commas between them. */
function byField<Dimension extends UsageDimension>(known: readonly Dimension[]) {
  return z
    .string()
    .max(64)
    .transform((text, ctx): Dimension[] => {
      const names = [...new Set(text.split(','))];
      const by = names.flatMap((name) => known.find((each) => each === name) ?? []);
      if (by.length < names.length) {
        ctx.addIssue({ code: 'custom', message: `any of ${known.join(', ')}, with commas between them` });
      }
      return by;
    })
    .optional()
    .openapi({
      type: 'string',
      description: `Any of ${known.join(', ')}, with commas between them; \`day\` by default.`,
    });
}

const windowFields = {
  since: timeField.optional().openapi({ description: `${DEFAULT_DAYS} days ago by default, at most ${MAX_DAYS}.` }),
  until: timeField.optional().openapi({ description: 'Now by default.' }),
};
const query = z.strictObject({ by: byField(OF_TENANT), ...windowFields });
const allQuery = z.strictObject({ by: byField(USAGE_DIMENSIONS), ...windowFields });

export const usageReportBody = z
  .object({
    since: timeBody.openapi({ description: 'Later than asked for, where the window has too many runs.' }),
    until: timeBody,
    by: z.array(z.enum(USAGE_DIMENSIONS)),
    complete: z.boolean(),
    rows: z.array(
      z.object({
        day: z.string().optional().openapi({ description: 'In UTC, of the creation of the runs.' }),
        agent: z.string().optional(),
        model: z.string().nullable().optional().openapi({ description: 'Null: these runs had no answer.' }),
        tenant: z.string().optional(),
        runs: z.int(),
        failedRuns: z.int(),
        steps: z.int(),
        usage: usageBody,
        costUsd: costBody,
      }),
    ),
  })
  .openapi('UsageReport', {
    example: {
      since: '2026-01-01T00:00:00.000Z',
      until: '2026-01-31T12:00:00.000Z',
      by: ['day', 'agent'],
      complete: true,
      rows: [
        {
          day: '2026-01-31',
          agent: 'workspace',
          runs: 12,
          failedRuns: 1,
          steps: 140,
          usage: {
            inputTokens: 312_000,
            outputTokens: 9_000,
            reasoningTokens: 0,
            cacheReadTokens: 290_000,
            cacheWriteTokens: 0,
            totalTokens: 321_000,
          },
          costUsd: 0.41,
        },
      ],
    },
  });

const WHAT =
  'The newest day first, then the most tokens. Reads the newest 50000 runs of the window and answers at most 5000 rows; `complete` says whether these are all. ' +
  'Sessions that were deleted are not in it. The model is that of the last answer of a run.';

const ofTenant = createRoute({
  method: 'get',
  path: '/v1/usage',
  operationId: 'getUsage',
  tags: ['runs'],
  summary: 'Tokens and cost by day, agent and model',
  description: WHAT,
  request: { query },
  responses: { 200: jsonOf(usageReportBody, 'What runs have used.'), ...REFUSED },
});

const ofAll = createRoute({
  method: 'get',
  path: '/v1/operator/usage',
  operationId: 'getAllUsage',
  tags: ['operator'],
  summary: 'Tokens and cost of all tenants by day, agent, model and tenant',
  description: `${WHAT} The key needs the scope \`operator\`.`,
  request: { query: allQuery },
  responses: { 200: jsonOf(usageReportBody, 'What runs have used.'), ...REFUSED },
});

export function registerUsageRoutes(app: BatonApp, { db }: HttpDeps): void {
  const read = async (
    tenantId: string | null,
    asked: z.output<typeof allQuery>,
  ): Promise<z.infer<typeof usageReportBody>> => {
    const { by = ['day'] } = asked;
    const until = asked.until === undefined ? new Date() : new Date(asked.until);
    const earliest = until.getTime() - MAX_DAYS * DAY_MS;
    const since = asked.since === undefined ? until.getTime() - DEFAULT_DAYS * DAY_MS : Date.parse(asked.since);
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
  app.openapi(ofTenant, async (c) => c.json(await read(tenantOf(c), c.req.valid('query')), 200));
  app.openapi(ofAll, async (c) => c.json(await read(null, c.req.valid('query')), 200));
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
