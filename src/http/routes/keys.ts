import { createRoute, z } from '@hono/zod-openapi';
import { SCOPES } from '../../domain/access.ts';
import { formatId } from '../../domain/ids.ts';
import { type ApiKey, listKeysOfTenant } from '../../store/around/api-keys.ts';
import { cursorField, nextCursor } from '../bodies/cursor.ts';
import { limitField } from '../bodies/fields.ts';
import { jsonOf, nextCursorBody, REFUSED, timeBody } from '../bodies/responses.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';

export const keyBody = z
  .object({
    id: z.string(),
    name: z.string(),
    shown: z.string().openapi({ description: 'The first characters of the key.' }),
    scopes: z.array(z.enum(SCOPES)),
    createdAt: timeBody,
    lastUsedAt: timeBody.nullable().openapi({ description: 'Exact to the minute.' }),
    expiresAt: timeBody.nullable().openapi({ description: 'Null: never.' }),
    revokedAt: timeBody.nullable(),
  })
  .openapi('ApiKey');

const list = createRoute({
  method: 'get',
  path: '/v1/keys',
  operationId: 'listKeys',
  tags: ['access'],
  summary: 'List the keys of the tenant, newest first',
  description:
    'Without the keys themselves; with those that are revoked or have expired. The key needs the scope `admin`.',
  request: { query: z.strictObject({ cursor: cursorField('keys'), limit: limitField }) },
  responses: {
    200: jsonOf(z.object({ keys: z.array(keyBody), nextCursor: nextCursorBody }), 'A page of the keys.'),
    ...REFUSED,
  },
});

export function registerKeyRoutes(app: BatonApp, { db }: HttpDeps): void {
  app.openapi(list, async (c) => {
    const { cursor, limit } = c.req.valid('query');
    const filter = { tenantId: tenantOf(c), limit: limit + 1, ...(cursor !== undefined && { after: cursor }) };
    const found = await listKeysOfTenant(db, filter);
    const rows = found.map(({ createdAt, id }) => ({ created_at: createdAt, id }));
    return c.json({ keys: found.slice(0, limit).map(toBody), nextCursor: nextCursor('keys', rows, limit) }, 200);
  });
}

function toBody({ id, name, shown, scopes, createdAt, ...times }: ApiKey): z.infer<typeof keyBody> {
  return {
    id: formatId('key', id),
    name,
    shown,
    scopes: [...scopes],
    createdAt: createdAt.toISOString(),
    lastUsedAt: times.lastUsedAt?.toISOString() ?? null,
    expiresAt: times.expiresAt?.toISOString() ?? null,
    revokedAt: times.revokedAt?.toISOString() ?? null,
  };
}
