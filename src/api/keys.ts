import { createRoute, z } from '@hono/zod-openapi';
import { MAX_KEYS_PER_TENANT, SCOPES } from '../domain/access.ts';
import { cursorField } from './cursor.ts';
import { idParams, limitField, noQuery, textField } from './fields.ts';
import { jsonBody } from './json-body.ts';
import {
  BODY_REFUSED,
  CONFLICT,
  jsonOf,
  NOT_FOUND,
  nextCursorBody,
  REFUSED,
  TOO_LARGE,
  timeBody,
} from './responses.ts';

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

const TEN_YEARS_S = 315_360_000;

const newKey = z.strictObject({
  name: textField(200).min(1).openapi({ description: 'Holder of the key. Two keys may have the same name.' }),
  scopes: z
    .array(z.enum(SCOPES))
    .min(1)
    .max(SCOPES.length)
    .default(['read', 'write'])
    .openapi({ description: 'Rights of the key, of which the caller has each.' }),
  expiresInSeconds: z
    .int()
    .min(1)
    .max(TEN_YEARS_S, `at most ${TEN_YEARS_S} (ten years)`)
    .optional()
    .openapi({ description: 'Time until the key expires. Default: it lasts until it is revoked.' }),
});

export const createKeyRoute = createRoute({
  method: 'post',
  path: '/v1/keys',
  operationId: 'createKey',
  tags: ['access'],
  summary: 'Make a key of the tenant',
  description: `The answer alone has the secret: the service keeps its hash. So a request whose answer was lost is not repeated: revoke that key, and make another one. The caller needs the scope \`admin\`, and each scope that the key gets. A tenant has at most ${MAX_KEYS_PER_TENANT} keys that are valid. After the first key of a service every request needs one.`,
  request: { query: noQuery, body: jsonBody(newKey.openapi('NewApiKey')) },
  responses: {
    201: jsonOf(
      z.object({
        id: z.string(),
        key: z.string().openapi({ description: 'The secret.' }),
        expiresAt: timeBody.nullable().openapi({ description: 'Time at which the key expires. null: never.' }),
      }),
      'The key with its secret, which is never shown again.',
    ),
    ...REFUSED,
    ...BODY_REFUSED,
    ...CONFLICT,
  },
});

export const revokeKeyRoute = createRoute({
  method: 'post',
  path: '/v1/keys/{id}/revoke',
  operationId: 'revokeKey',
  tags: ['access'],
  summary: 'Revoke a key with its tokens and logins',
  description:
    'Refuses its next request, and ends its open streams within seconds. Keys that it has made stay: the audit log names them. The caller needs the scope `admin`, and cannot revoke the key that it sends: nobody shuts himself out.',
  request: { params: idParams('key'), query: noQuery },
  responses: { 204: { description: 'Revoked.' }, ...REFUSED, ...TOO_LARGE, ...NOT_FOUND, ...CONFLICT },
});
