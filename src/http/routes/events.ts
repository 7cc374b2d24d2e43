import type { Context } from 'hono';
import { type EventPlace, toEventId } from '../../api/event-id.ts';
import { followEventsRoute } from '../../api/events.ts';
import { toPublicEvent } from '../../events/stream-item.ts';
import { openEventStream } from '../../events/subscribe.ts';
import { toSafeError } from '../../platform/log.ts';
import { shareReads } from '../../platform/share-reads.ts';
import type { Db } from '../../store/db/database.ts';
import { historyOf } from '../../store/db/history.ts';
import { findSession } from '../../store/session/sessions.ts';
import { readEvents } from '../../store/transcript/events.ts';
import { wantedEventFormat } from '../bodies/media-type.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, type HttpEnv, tenantOf } from '../http-env.ts';
import { untilGone } from '../request-signal.ts';
import { sseResponse } from '../sse.ts';

const findFollowed = shareReads(
  (db: Db, { tenantId, sessionId }: Readonly<{ tenantId: string; sessionId: string }>) =>
    findSession(db, tenantId, sessionId),
  ({ tenantId, sessionId }) => `${tenantId} ${sessionId}`,
);

export function registerEventRoutes(app: BatonApp, deps: HttpDeps): void {
  app.openapi(followEventsRoute, async (c) => {
    const format = wantedEventFormat(c);
    const sessionId = c.req.valid('param').id;
    const { after, limit } = c.req.valid('query');
    // A browser that reconnects repeats the old URL and gives its newer position in the header.
    const place = c.req.valid('header')['last-event-id'] ?? after ?? null;
    const session = await findFollowed(deps.db, { tenantId: tenantOf(c), sessionId });
    if (format === 'text/event-stream') return stream(c, deps, sessionId, place);
    const epoch = historyOf(deps.db).epoch();
    // As in the stream: a number beyond the log is one of a log that was lost.
    const reset = (place?.epoch ?? epoch) !== epoch || (place?.seq ?? 0) > session.event_seq;
    const afterSeq = reset ? 0 : (place?.seq ?? 0);
    const events = await readEvents(deps.db, tenantOf(c), sessionId, { afterSeq, limit });
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
