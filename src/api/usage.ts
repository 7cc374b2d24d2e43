import { createRoute, z } from '@hono/zod-openapi';
import { USAGE_DIMENSIONS, type UsageDimension } from '../domain/usage-dimensions.ts';
import { timeField } from './fields.ts';
import { costBody, jsonOf, REFUSED, timeBody, usageBody } from './responses.ts';

export const DEFAULT_DAYS = 30;

export const MAX_DAYS = 92;

const OF_TENANT = ['day', 'agent', 'model'] as const;

/** Names of dimensions with commas between them. */
function byField<Dimension extends UsageDimension>(dimensions: readonly Dimension[]) {
  return z
    .string()
    .max(64)
    .transform((text, ctx): Dimension[] => {
      const names = [...new Set(text.split(','))];
      const by = names.flatMap((name) => dimensions.find((each) => each === name) ?? []);
      if (by.length < names.length) {
        ctx.addIssue({ code: 'custom', message: `any of ${dimensions.join(', ')}, with commas between them` });
      }
      return by;
    })
    .optional()
    .openapi({
      type: 'string',
      description: `Any of ${dimensions.join(', ')}, with commas between them; \`day\` by default.`,
    });
}

const windowFields = {
  since: timeField.optional().openapi({ description: `${DEFAULT_DAYS} days ago by default, at most ${MAX_DAYS}.` }),
  until: timeField.optional().openapi({ description: 'End of the window. Default: now.' }),
};

const query = z.strictObject({ by: byField(OF_TENANT), ...windowFields });

export const allQuery = z.strictObject({ by: byField(USAGE_DIMENSIONS), ...windowFields });

export const usageReportBody = z
  .object({
    since: timeBody.openapi({
      description: 'Start of the window. Later than requested if the window has too many runs.',
    }),
    until: timeBody,
    by: z.array(z.enum(USAGE_DIMENSIONS)),
    complete: z.boolean(),
    rows: z.array(
      z.object({
        day: z.string().optional().openapi({ description: 'Day (UTC) on which the runs were created.' }),
        agent: z.string().optional(),
        model: z
          .string()
          .nullable()
          .optional()
          .openapi({ description: 'Model of the runs. null: they had no answer.' }),
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

export const getUsageRoute = createRoute({
  method: 'get',
  path: '/v1/usage',
  operationId: 'getUsage',
  tags: ['runs'],
  summary: 'Tokens and cost by day, agent and model',
  description: WHAT,
  request: { query },
  responses: { 200: jsonOf(usageReportBody, 'Tokens and costs of runs.'), ...REFUSED },
});

export const getAllUsageRoute = createRoute({
  method: 'get',
  path: '/v1/operator/usage',
  operationId: 'getAllUsage',
  tags: ['operator'],
  summary: 'Tokens and cost of all tenants by day, agent, model and tenant',
  description: `${WHAT} The key needs the scope \`operator\`.`,
  request: { query: allQuery },
  responses: { 200: jsonOf(usageReportBody, 'Tokens and costs of runs.'), ...REFUSED },
});
