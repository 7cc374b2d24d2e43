import { createRoute, z } from '@hono/zod-openapi';
import { ERROR_CODES } from '../domain/errors.ts';
import { limitField, textField, timeField } from './fields.ts';
import { jsonOf, REFUSED, timeBody } from './responses.ts';

const group = {
  fingerprint: z.string().openapi({ description: 'Fingerprint of the cause: equal for equal causes at any time.' }),
  code: z.enum(ERROR_CODES),
  provider: z.string().nullable(),
  model: z.string().nullable().openapi({ description: 'Model of the run’s last answer. null: the run had no answer.' }),
  agent: z.string(),
  count: z.int(),
  firstAt: timeBody,
  lastAt: timeBody,
  hours: z.array(z.object({ hour: timeBody, count: z.int() })).openapi({ description: 'Hours (UTC) with failures.' }),
};

const text = z.string().openapi({ description: 'The message without numbers, ids, addresses and quoted texts.' });

const run = { runId: z.string(), sessionId: z.string(), at: timeBody };

const page = { since: timeBody, complete: z.boolean() };

const errorGroupsBody = z
  .object({
    ...page,
    groups: z.array(z.object({ ...group, text, newest: z.array(z.object({ ...run, message: z.string() })) })),
  })
  .openapi('ErrorGroups');

const allErrorGroupsBody = z
  .object({
    ...page,
    groups: z.array(
      z.object({ ...group, tenants: z.int(), newest: z.array(z.object({ ...run, tenant: z.string() })) }),
    ),
  })
  .openapi('AllErrorGroups');

const sinceField = timeField
  .optional()
  .openapi({ description: 'Start of the window. Default: a day ago, at most 30 days.' });

export const query = z.strictObject({
  since: sinceField,
  agent: textField(64).min(1).optional(),
  group: z
    .string()
    .regex(/^[0-9a-f]{16}$/, 'the fingerprint of a group: 16 hexadecimal digits')
    .optional()
    .openapi({ description: 'Fingerprint of a group. Only this group is returned, with its newest 100 runs.' }),
  limit: limitField,
});

const WHAT =
  'By code, model, agent and message, without what differs from run to run: the most frequent first, each with its counts by hour and its ' +
  'newest five. Looks at the newest 2000 failed runs; `complete` says whether these are all.';

export const listErrorGroupsRoute = createRoute({
  method: 'get',
  path: '/v1/errors',
  operationId: 'listErrorGroups',
  tags: ['runs'],
  summary: 'Count failed runs by cause',
  description: WHAT,
  request: { query },
  responses: { 200: jsonOf(errorGroupsBody, 'Causes of failed runs.'), ...REFUSED },
});

export const listAllErrorGroupsRoute = createRoute({
  method: 'get',
  path: '/v1/operator/errors',
  operationId: 'listAllErrorGroups',
  tags: ['operator'],
  summary: 'Count failed runs of all tenants by cause',
  description: `${WHAT} The key needs the scope \`operator\`, which is shown no message: causes are by code, model and agent.`,
  request: { query },
  responses: { 200: jsonOf(allErrorGroupsBody, 'Causes of failed runs.'), ...REFUSED },
});
