import { createRoute, z } from '@hono/zod-openapi';
import { noQuery } from './fields.ts';
import { REFUSED } from './responses.ts';

export const followActivityRoute = createRoute({
  method: 'get',
  path: '/v1/activity',
  operationId: 'followActivity',
  tags: ['sessions'],
  summary: 'Follow which sessions and runs change, to read those again',
  description:
    'A stream of server-sent events. `activity`: ids of sessions that are at work or among the newest, and of their runs, that have ' +
    'changed; once a second at most. `overflow`: so much may have changed that lists should be read again. `heartbeat`: nothing ' +
    'has. It begins with `overflow`, also after a connection was lost: it repeats nothing.',
  request: { query: noQuery },
  responses: {
    200: { description: 'The stream.', content: { 'text/event-stream': { schema: z.string() } } },
    ...REFUSED,
  },
});
