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
    changes: z
      .array(z.strictObject(toolChangesSchema.shape))
      .openapi({ description: 'Of each server that offers other tools than the session knew, by their own names.' }),
  })
  .openapi('RepinnedTools');

export const repinToolsRoute = createRoute({
  method: 'post',
  path: '/v1/sessions/{id}/repin',
  operationId: 'repinTools',
  tags: ['sessions'],
  summary: 'Take the definitions that the MCP servers of a session offer now',
  description:
    'A session keeps the tools that it began with; `tools:drifted` tells when a server offers others. This accepts them, from the next step on.',
  request: {
    params: idParams('session'),
    query: noQuery,
    headers: idempotencyHeader,
    body: emptyBody,
  },
  responses: {
    200: jsonOf(repinnedBody, 'What has changed; nothing, where the servers offer what the session knew.'),
    ...REFUSED,
    ...BODY_REFUSED,
    ...NOT_FOUND,
    ...CONFLICT,
  },
});
