import { createRoute, z } from '@hono/zod-openapi';
import { AUDITED_ACTIONS } from '../domain/audit.ts';
import { beforeField, limitField } from './fields.ts';
import { jsonOf, REFUSED, timeBody } from './responses.ts';

const entryBody = z
  .object({
    seq: z.int(),
    action: z.enum(AUDITED_ACTIONS),
    target: z.string().openapi({ description: 'The path of the request, or the id of what was changed.' }),
    keyId: z.string().nullable().openapi({ description: 'Null: on the command line, or before there were keys.' }),
    createdAt: timeBody,
  })
  .openapi('AuditEntry');

export const listAuditEntriesRoute = createRoute({
  method: 'get',
  path: '/v1/audit',
  operationId: 'listAuditEntries',
  tags: ['audit'],
  summary: 'Who cancelled, answered, removed and deleted what, newest first',
  description: 'Of the tenant of the key, which needs the scope `admin`.',
  request: {
    query: z.strictObject({
      before: beforeField.optional(),
      limit: limitField,
    }),
  },
  responses: {
    200: jsonOf(
      z.object({
        entries: z.array(entryBody),
        next: z.int().nullable().openapi({ description: 'Pass it as `before`; null at the end.' }),
      }),
      'A page of the log.',
    ),
    ...REFUSED,
  },
});
