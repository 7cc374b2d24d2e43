import { openEventStream } from '../events/subscribe.ts';
import { findTaskAfter } from '../store/session/runs.ts';
import type { FollowDeps } from './run-details.ts';

/**
 * Waits for the task run that follows a run in its session, or for the session's first one. Resolves at once if it has
 * begun; null: `signal` aborted first.
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
