import { createRoute, z } from '@hono/zod-openapi';
import { ERROR_CODES } from '../domain/errors.ts';
import { limitField, textField, timeField } from './fields.ts';
import { jsonOf, REFUSED, timeBody } from './responses.ts';

const group = {
  fingerprint: z.string().openapi({ description: 'The same for the same cause at any time.' }),
  code: z.enum(ERROR_CODES),
  provider: z.string().nullable(),
  model: z.string().nullable().openapi({ description: 'Of the last answer of the run; null: it had none.' }),
  agent: z.string(),
  count: z.int(),
  firstAt: timeBody,
  lastAt: timeBody,
  hours: z.array(z.object({ hour: timeBody, count: z.int() })).openapi({ description: 'In UTC; those with failures.' }),
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

const sinceField = timeField.optional().openapi({ description: 'A day ago by default, at most 30 days.' });

export const query = z.strictObject({
  since: sinceField,
  agent: textField(64).min(1).optional(),
  group: z
    .string()
    .regex(/^[0-9a-f]{16}$/, 'the fingerprint of a group: 16 hexadecimal digits')
    .optional()
    .openapi({ description: 'The fingerprint of a group: it alone, with its newest 100.' }),
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
  summary: 'Why runs have failed, by cause',
  description: WHAT,
  request: { query },
  responses: { 200: jsonOf(errorGroupsBody, 'The causes.'), ...REFUSED },
});

export const listAllErrorGroupsRoute = createRoute({
  method: 'get',
  path: '/v1/operator/errors',
  operationId: 'listAllErrorGroups',
  tags: ['operator'],
  summary: 'Why runs of all tenants have failed, by cause',
  description: `${WHAT} The key needs the scope \`operator\`, which is shown no message: causes are by code, model and agent.`,
  request: { query },
  responses: { 200: jsonOf(allErrorGroupsBody, 'The causes.'), ...REFUSED },
});
