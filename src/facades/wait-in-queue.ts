import { formatId, parseId } from '../domain/ids.ts';
import type { NewEvent } from '../domain/run/events.ts';
import type { StreamItem } from '../events/stream-item.ts';
import { openEventStream } from '../events/subscribe.ts';
import type { Db } from '../store/db/database.ts';
import { findRun } from '../store/session/runs.ts';
import { findSession } from '../store/session/sessions.ts';
import { readPosition } from '../store/session/waiting-messages.ts';
import { type FollowDeps, readIdleState } from './run-details.ts';
import { type RunUpdate, readEvent, runEndOf } from './run-updates.ts';

export type WaitingRef = Readonly<{
  tenantId: string;
  sessionId: string;
  messageId: string;
  position: number;
  /** The session's last event when the message was accepted. */
  afterSeq: number;
}>;

/**
 * Tells how a message waits, and returns the UUID of the run that takes it up. Null: no run will for now, which was
 * told, or `signal` aborted.
 */
export async function* waitInQueue(
  deps: FollowDeps,
  ref: WaitingRef,
  signal: AbortSignal,
): AsyncGenerator<RunUpdate, string | null> {
  const { tenantId, sessionId, afterSeq } = ref;
  let { position } = ref;
  yield { kind: 'queued', position };
  for await (const item of openEventStream(deps, { tenantId, sessionId, afterSeq, signal })) {
    const news = await look(deps.db, ref, item);
    if (news === null) continue;
    if (news.kind === 'taken-up') return news.runId;
    if (news.kind === 'queued' && news.position === position) continue;
    if (news.kind === 'queued') position = news.position;
    yield news;
    if (news.kind === 'ended') return null;
  }
  return null;
}

type News = RunUpdate | Readonly<{ kind: 'taken-up'; runId: string }>;

async function look(db: Db, ref: WaitingRef, item: StreamItem): Promise<News | null> {
  if (item.kind === 'heartbeat') return { kind: 'alive' };
  const event = item.kind === 'event' ? readEvent(item.event) : null;
  if (item.kind !== 'event' || event === null) return null;
  if (event.type === 'message:dequeued' || event.type === 'message:removed') {
    return lookAtQueue(db, ref, event, item.event.runId);
  }
  const end = runEndOf(event);
  if (end === null || !(await isParked(db, ref))) return null;
  return parked(db, ref, end.status === 'cancelled' ? 'cancelled' : 'failed');
}

type QueueEvent = Extract<NewEvent, { type: 'message:dequeued' | 'message:removed' }>;

async function lookAtQueue(db: Db, ref: WaitingRef, event: QueueEvent, by: string | null): Promise<News | null> {
  if (!event.data.ids.includes(formatId('message', ref.messageId))) {
    const position = await readPosition(db, ref.tenantId, ref.sessionId, ref.messageId);
    return position === null ? null : { kind: 'queued', position };
  }
  const runId = event.type === 'message:dequeued' && by !== null ? parseId('run', by) : null;
  return runId === null ? parked(db, ref, 'cancelled') : { kind: 'taken-up', runId };
}

/** Whether the message is parked after the end of a run: a next run would have begun in the same transaction. */
async function isParked(db: Db, ref: WaitingRef): Promise<boolean> {
  if ((await readPosition(db, ref.tenantId, ref.sessionId, ref.messageId)) === null) return false;
  const { active_run_id: active } = await findSession(db, ref.tenantId, ref.sessionId);
  return active === null || (await findRun(db, ref.tenantId, active)).kind === 'maintenance';
}

async function parked(db: Db, ref: WaitingRef, after: 'cancelled' | 'failed'): Promise<RunUpdate> {
  return { kind: 'ended', end: { status: 'parked', after }, state: await readIdleState(db, ref) };
}
