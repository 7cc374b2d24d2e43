import { setTimeout as sleep } from 'node:timers/promises';
import { followActivityRoute } from '../../api/activity.ts';
import { type ActivityChange, type ActivityView, changesBetween } from '../../domain/activity.ts';
import { formatId } from '../../domain/ids.ts';
import { type Log, toSafeError } from '../../platform/log.ts';
import { shareReads } from '../../platform/share-reads.ts';
import type { Db } from '../../store/db/database.ts';
import { readActivity } from '../../store/lists/activity.ts';
import type { HttpDeps } from '../http-deps.ts';
import { type BatonApp, tenantOf } from '../http-env.ts';
import { untilGone } from '../request-signal.ts';
import { framesResponse } from '../sse.ts';

const INTERVAL_MS = 1_000;
const HEARTBEAT_MS = 10_000;

type Frame = ActivityChange | Readonly<{ kind: 'heartbeat' }>;

/** Streams of a tenant look at the same moments, so that they share their queries. */
const readShared = shareReads(readActivity, (tenantId) => tenantId);

export function registerActivityRoutes(app: BatonApp, { db, log }: HttpDeps): void {
  app.openapi(followActivityRoute, (c) => {
    const signal = untilGone(c);
    const response = framesResponse(followActivity({ db, log }, tenantOf(c), signal), toFrame, { signal });
    if (c.req.method !== 'HEAD') return response;
    // The body of an answer to HEAD has no reader, so the stream would never end.
    void response.body?.cancel();
    return new Response(null, response);
  });
}

async function* followActivity(
  { db, log }: Readonly<{ db: Db; log: Log }>,
  tenantId: string,
  signal: AbortSignal,
): AsyncGenerator<Frame, void, undefined> {
  let before: ActivityView | null = null;
  let silentMs = 0;
  while (!signal.aborted) {
    const after = await readShared(db, tenantId).catch((error: unknown) => {
      log('warn', { event: 'database_connection_lost', error: toSafeError(error) });
      return null;
    });
    // The changes during an outage are not known.
    const change: ActivityChange | null =
      after === null ? null : before === null ? { kind: 'overflow' } : changesBetween(before, after);
    before = after;
    silentMs = change === null ? silentMs + INTERVAL_MS : 0;
    if (change !== null) yield change;
    else if (silentMs >= HEARTBEAT_MS) {
      silentMs = 0;
      yield { kind: 'heartbeat' };
    }
    await sleep(INTERVAL_MS - (Date.now() % INTERVAL_MS), undefined, { signal }).catch(() => undefined);
  }
}

function toFrame(frame: Frame): string {
  const data =
    frame.kind === 'changed'
      ? {
          sessions: frame.sessionIds.map((id) => formatId('session', id)),
          runs: frame.runIds.map((id) => formatId('run', id)),
        }
      : {};
  return `event: ${frame.kind === 'changed' ? 'activity' : frame.kind}\ndata: ${JSON.stringify(data)}\n\n`;
}
