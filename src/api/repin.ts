import { createRoute, z } from '@hono/zod-openapi';
import { toolChangesSchema } from '../domain/run/tool-drift.ts';
import { idParams, noQuery } from './fields.ts';
import { idempotencyHeader } from './idempotency-key.ts';
import { emptyBody } from './json-body.ts';
import { BODY_REFUSED, CONFLICT, jsonOf, NOT_FOUND, REFUSED } from './responses.ts';

export const repinnedBody = z
  .object({
    sessionId: z.string(),
    // The domain made its schema before Hono's zod added `openapi`, so this one is built from its fields.
    changes: z.array(z.strictObject(toolChangesSchema.shape)).openapi({
      description: 'Differences by server: tools that were added, changed and removed, by their own names.',
    }),
  })
  .openapi('RepinnedTools');

export const repinToolsRoute = createRoute({
  method: 'post',
  path: '/v1/sessions/{id}/repin',
  operationId: 'repinTools',
  tags: ['sessions'],
  summary: 'Accept the definitions that the MCP servers of a session offer now',
  description:
    'A session keeps the tools that it began with, and `tools:drifted` tells when a server offers others. The request accepts them, from the next step on.',
  request: {
    params: idParams('session'),
    query: noQuery,
    headers: idempotencyHeader,
    body: emptyBody,
  },
  responses: {
    200: jsonOf(repinnedBody, 'Changes. Empty if the servers offer what the session had.'),
    ...REFUSED,
    ...BODY_REFUSED,
    ...NOT_FOUND,
    ...CONFLICT,
  },
});
