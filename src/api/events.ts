import { createRoute, z } from '@hono/zod-openapi';
import { eventBody, streamBody } from './event-bodies.ts';
import { eventIdField } from './event-id.ts';
import { idParams, limitField } from './fields.ts';
import { NOT_ACCEPTABLE, NOT_FOUND, REFUSED } from './responses.ts';

const eventPage = z.object({
  events: z.array(eventBody),
  next: z
    .int()
    .openapi({ description: 'Value to pass as `after` for the next page. Unchanged if there was nothing new.' }),
  nextId: z.string().openapi({
    description:
      'Value to pass as `after` in place of `next`. It also names the history of the database, so that a restore is noticed.',
  }),
  reset: z.boolean().openapi({
    description:
      'The event of `after` is beyond the log, or belongs to a history that was lost: the page begins with the first event that is kept.',
  }),
});

export const followEventsRoute = createRoute({
  method: 'get',
  path: '/v1/sessions/{id}/events',
  operationId: 'followEvents',
  tags: ['events'],
  summary: 'Follow the events of a session, or read a page of them',
  description:
    'A stream of server-sent events: `session:snapshot` first, then the durable events after the given number ' +
    '(none without one, all with 0), then what happens, with previews of streamed text in between. ' +
    'The id of an event has its number and an epoch, which changes when the database was restored or promoted. ' +
    'A number that is not in the log, because it is beyond or was removed, and an id of another epoch, give a snapshot with `reset` and all that is kept. ' +
    'The schemas `SessionSnapshot`, `SessionEvent` and `LiveEvent` have the data of each. ' +
    'With `Accept: application/json` a page of durable events.',
  request: {
    params: idParams('session'),
    query: z.strictObject({ after: eventIdField.optional(), limit: limitField }),
    headers: z.object({ 'last-event-id': eventIdField.optional() }),
  },
  responses: {
    200: {
      description: 'The stream, or the page. `limit` is for pages only.',
      content: { 'text/event-stream': { schema: streamBody }, 'application/json': { schema: eventPage } },
    },
    ...REFUSED,
    ...NOT_FOUND,
    ...NOT_ACCEPTABLE,
  },
});
