import { createRoute, z } from '@hono/zod-openapi';
import { jsonBody } from './json-body.ts';
import { BODY_REFUSED, REFUSED } from './responses.ts';

const messageBody = z.looseObject({
  jsonrpc: z.literal('2.0'),
  id: z.union([z.string(), z.int()]).optional(),
  method: z.string().optional(),
  params: z.looseObject({}).optional(),
});

const answers = z.looseObject({ jsonrpc: z.literal('2.0'), id: z.union([z.string(), z.int()]).nullish() });

/** Described for readers and generators. MCP's SDK reads the bodies and answers them. */
export const mcpRoute = createRoute({
  method: 'post',
  path: '/mcp',
  operationId: 'callMcp',
  tags: ['mcp'],
  summary: 'Send a message of the Model Context Protocol',
  description:
    'Streamable HTTP of MCP, for its clients: each agent is a tool. Takes the revision 2026-07-28 and the older ones. Errors of the protocol are JSON-RPC errors.',
  request: { body: jsonBody(messageBody.openapi('McpMessage')) },
  responses: {
    200: {
      description: 'The answer, whole or as a stream of messages that ends with it.',
      content: {
        'application/json': { schema: answers.openapi('McpAnswer') },
        'text/event-stream': { schema: z.string() },
      },
    },
    202: { description: 'A message that has no answer.' },
    ...REFUSED,
    ...BODY_REFUSED,
    404: {
      description: 'There is no such method, or the client’s session is not known.',
      content: { 'application/json': { schema: answers } },
    },
    406: {
      description: 'The client takes neither JSON nor a stream of events.',
      content: { 'application/json': { schema: answers } },
    },
  },
});
