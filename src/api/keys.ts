import { createRoute, z } from '@hono/zod-openapi';
import { SCOPES } from '../domain/access.ts';
import { cursorField } from './cursor.ts';
import { limitField } from './fields.ts';
import { jsonOf, nextCursorBody, REFUSED, timeBody } from './responses.ts';

export const keyBody = z
  .object({
    id: z.string(),
    name: z.string(),
    shown: z.string().openapi({ description: 'The first characters of the key.' }),
    scopes: z.array(z.enum(SCOPES)),
    createdAt: timeBody,
    lastUsedAt: timeBody.nullable().openapi({ description: 'Last use of the key, exact to the minute.' }),
    expiresAt: timeBody.nullable().openapi({ description: 'Time at which the key expires. null: never.' }),
    revokedAt: timeBody.nullable(),
  })
  .openapi('ApiKey');

export const listKeysRoute = createRoute({
  method: 'get',
  path: '/v1/keys',
  operationId: 'listKeys',
  tags: ['access'],
  summary: 'List the keys of the tenant, newest first',
  description: 'Lists revoked and expired keys, too, and never the secrets. The key needs the scope `admin`.',
  request: { query: z.strictObject({ cursor: cursorField('keys'), limit: limitField }) },
  responses: {
    200: jsonOf(z.object({ keys: z.array(keyBody), nextCursor: nextCursorBody }), 'A page of the keys.'),
    ...REFUSED,
  },
});
