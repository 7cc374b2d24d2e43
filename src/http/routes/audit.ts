import { createRoute, z } from '@hono/zod-openapi';
import { AUDITED_ACTIONS } from '../../domain/audit.ts';
import { formatId } from '../../domain/ids.ts';
import { listAudit } from '../../store/around/audit.ts';
import { beforeField, limitField } from '../bodies/fields.ts';
import { jsonOf, REFUSED, timeBody } from '../bodies/responses.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';

export const entryBody = z
  .object({
    seq: z.int(),
    action: z.enum(AUDITED_ACTIONS),
    target: z.string().openapi({ description: 'The path of the request, or the id of what was changed.' }),
    keyId: z.string().nullable().openapi({ description: 'Null: on the command line, or before there were keys.' }),
    createdAt: timeBody,
  })
  .openapi('AuditEntry');

const list = createRoute({
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

export function registerAuditRoutes(app: BatonApp, { db }: HttpDeps): void {
  app.openapi(list, async (c) => {
    const { before, limit } = c.req.valid('query');
    const filter = { tenantId: tenantOf(c), limit: limit + 1, ...(before !== undefined && { before }) };
    const found = await listAudit(db, filter);
    const page = found.slice(0, limit);
    const entries = page.map(({ seq, action, target, keyId, createdAt }) => ({
      seq,
      action,
      target,
      keyId: keyId === null ? null : formatId('key', keyId),
      createdAt: createdAt.toISOString(),
    }));
    return c.json({ entries, next: found.length > limit ? (page.at(-1)?.seq ?? null) : null }, 200);
  });
}
