import { openEventStream } from '../events/subscribe.ts';
import { findTaskAfter } from '../store/runs.ts';
import type { FollowDeps } from './run-details.ts';

/**
 * Waits for the task that a session begins next after a run, or for its first one; null: none has begun when `signal`
 * aborts. What has begun already is answered at once.
 * @throws BatonError `not_found`
 */
export async function nextTask(
  deps: FollowDeps,
  after: Readonly<{ tenantId: string; sessionId: string; runId: string | null }>,
  signal: AbortSignal,
): Promise<string | null> {
  const { tenantId, sessionId } = after;
  for await (const item of openEventStream(deps, { tenantId, sessionId, afterSeq: null, signal })) {
    const isNews = item.kind === 'snapshot' || (item.kind === 'event' && item.event.type === 'run:queued');
    const runId = isNews ? await findTaskAfter(deps.db, after) : null;
    if (runId !== null) return runId;
  }
  return null;
}
