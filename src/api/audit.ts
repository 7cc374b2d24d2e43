import { createRoute, z } from '@hono/zod-openapi';
import { AUDITED_ACTIONS } from '../domain/audit.ts';
import { beforeField, limitField } from './fields.ts';
import { jsonOf, REFUSED, timeBody } from './responses.ts';

const entryBody = z
  .object({
    seq: z.int(),
    action: z.enum(AUDITED_ACTIONS),
    target: z.string().openapi({ description: 'Path of the request, or id of the changed thing.' }),
    keyId: z
      .string()
      .nullable()
      .openapi({ description: 'Id of the API key. null: the command line acted, or no key existed yet.' }),
    createdAt: timeBody,
  })
  .openapi('AuditEntry');

export const listAuditEntriesRoute = createRoute({
  method: 'get',
  path: '/v1/audit',
  operationId: 'listAuditEntries',
  tags: ['audit'],
  summary: 'List who cancelled, answered, removed and deleted what, newest first',
  description: 'Covers the tenant of the key, which needs the scope `admin`.',
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
        next: z
          .int()
          .nullable()
          .openapi({ description: 'Value to pass as `before` for the next page. null at the end.' }),
      }),
      'A page of the log.',
    ),
    ...REFUSED,
  },
});
