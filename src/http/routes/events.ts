import { createRoute, z } from '@hono/zod-openapi';
import type { Context } from 'hono';
import { toPublicEvent } from '../../events/stream-item.ts';
import { openEventStream } from '../../events/subscribe.ts';
import { toSafeError } from '../../platform/log.ts';
import { shareReads } from '../../platform/share-reads.ts';
import type { Db } from '../../store/db/database.ts';
import { historyOf } from '../../store/db/history.ts';
import { findSession } from '../../store/session/sessions.ts';
import { readEvents } from '../../store/transcript/events.ts';
import { eventBody, streamBody } from '../bodies/event-bodies.ts';
import { type EventPlace, eventIdField, toEventId } from '../bodies/event-id.ts';
import { idParams, limitField } from '../bodies/fields.ts';
import { wantedEventFormat } from '../bodies/media-type.ts';
import { NOT_ACCEPTABLE, NOT_FOUND, REFUSED } from '../bodies/responses.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, type HttpEnv, tenantOf } from '../http-env.ts';
import { untilGone } from '../request-signal.ts';
import { sseResponse } from '../sse.ts';

const eventPage = z.object({
  events: z.array(eventBody),
  next: z.int().openapi({ description: 'Pass it as `after`; the same as before when there was nothing new.' }),
  nextId: z.string().openapi({
    description:
      'Pass it as `after` in place of `next`: it also names the history of the database, so that a restore is noticed.',
  }),
  reset: z.boolean().openapi({
    description:
      'The event of `after` belongs to a history that was lost: the page begins with the first event that is kept.',
  }),
});

const follow = createRoute({
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

const findFollowed = shareReads(
  (db: Db, { tenantId, sessionId }: Readonly<{ tenantId: string; sessionId: string }>) =>
    findSession(db, tenantId, sessionId),
  ({ tenantId, sessionId }) => `${tenantId} ${sessionId}`,
);

export function registerEventRoutes(app: BatonApp, deps: HttpDeps): void {
  app.openapi(follow, async (c) => {
    const format = wantedEventFormat(c);
    const sessionId = c.req.valid('param').id;
    const { after, limit } = c.req.valid('query');
    // A browser that reconnects repeats the old URL and gives its newer position in the header.
    const place = c.req.valid('header')['last-event-id'] ?? after ?? null;
    await findFollowed(deps.db, { tenantId: tenantOf(c), sessionId });
    if (format === 'text/event-stream') return stream(c, deps, sessionId, place);
    const epoch = historyOf(deps.db).epoch();
    const reset = (place?.epoch ?? epoch) !== epoch;
    const afterSeq = reset ? 0 : (place?.seq ?? 0);
    const events = await readEvents(deps.db, tenantOf(c), sessionId, afterSeq, limit);
    const next = events.at(-1)?.seq ?? afterSeq;
    return c.json({ events: events.map(toPublicEvent), next, nextId: toEventId(next, epoch), reset }, 200);
  });
}

function stream(
  c: Context<HttpEnv>,
  { db, bus, log, metrics }: HttpDeps,
  sessionId: string,
  after: EventPlace | null,
): Response {
  const signal = untilGone(c);
  const onError = (error: unknown): void =>
    log('warn', { event: 'database_connection_lost', error: toSafeError(error) });
  const place = { afterSeq: after?.seq ?? null, afterEpoch: after?.epoch };
  const request = { tenantId: tenantOf(c), sessionId, ...place, signal };
  const reader = metrics.http.readerJoined();
  const response = sseResponse((direct) => openEventStream({ db, bus, onError, direct }, request), {
    signal,
    onEnd: () => reader[Symbol.dispose](),
  });
  if (c.req.method !== 'HEAD') return response;
  // The body of an answer to HEAD has no reader, so the stream would never end.
  void response.body?.cancel();
  return new Response(null, response);
}
