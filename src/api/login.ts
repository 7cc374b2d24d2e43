import { createRoute, z } from '@hono/zod-openapi';
import { SCOPES, WHOAMI_PATH } from '../domain/access.ts';
import { noQuery } from './fields.ts';
import { jsonOf, REFUSED } from './responses.ts';

const callerBody = z
  .object({
    tenant: z.string(),
    keyId: z.string().nullable().openapi({ description: 'Id of the API key. null: the service needs no key yet.' }),
    scopes: z.array(z.enum(SCOPES)),
    board: z.boolean().openapi({ description: 'True: a page of the queues is at /admin/queues.' }),
    traceUrl: z.string().nullable().openapi({
      description: 'URL of the page of a trace, with `{traceId}` in it. null: none is configured.',
    }),
  })
  .openapi('Caller');

export const getCallerRoute = createRoute({
  method: 'get',
  path: WHOAMI_PATH,
  operationId: 'getCaller',
  tags: ['access'],
  summary: 'Read the caller’s tenant, key and scopes',
  request: { query: noQuery },
  responses: { 200: jsonOf(callerBody, 'The caller, with any valid key.'), ...REFUSED },
});
