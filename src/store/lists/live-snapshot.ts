import { z } from 'zod';
import { type ContextState, contextStateSchema } from '../../domain/context/meter/state.ts';
import type { SessionStatus } from '../../domain/run/session.ts';
import { DEFAULT_INBOX_MESSAGES } from '../../domain/tunables.ts';
import type { Usage } from '../../domain/usage.ts';
import { type Db, inSnapshot } from '../db/database.ts';
import { usageOf } from '../db/usage-columns.ts';
import { findSession } from '../session/sessions.ts';
import { countWaiting, listWaitingNotices, type WaitingNotice } from '../session/waiting-messages.ts';
import { readChunks, type StreamedText } from '../transcript/chunks.ts';
import type { MessageKey } from '../transcript/message-key.ts';

/** The state of a session at one moment, from which a reader follows it. */
export type LiveSnapshot = Readonly<{
  sessionId: string;
  status: SessionStatus;
  activeRunId: string | null;
  /** The last event of that moment. 0: there is none. */
  eventSeq: number;
  /** The oldest event that is kept. */
  eventsFirstSeq: number;
  /** Number of queued messages, and the first of them. */
  queueLength: number;
  waiting: readonly WaitingNotice[];
  /** The open assistant's message with its stored text, which may be empty. */
  inFlight: StreamedText | null;
  usage: Usage;
  compactingSince: Date | null;
  /** Context use after the last step, prune or compaction. Null: none has happened. */
  meter: ContextState['meter'];
}>;

/** Queued messages in a snapshot. An inbox with the default limit fits in it. */
const SNAPSHOT_WAITING = DEFAULT_INBOX_MESSAGES;

/** One snapshot: the text so far belongs exactly to the events up to `eventSeq`. @throws BatonError `not_found` */
export async function readLiveSnapshot(db: Db, tenantId: string, sessionId: string): Promise<LiveSnapshot> {
  return inSnapshot(db, async (tx) => {
    const session = await findSession(tx, tenantId, sessionId);
    const waiting = await listWaitingNotices(tx, tenantId, sessionId, SNAPSHOT_WAITING);
    const isAll = waiting.length < SNAPSHOT_WAITING;
    const queueLength = isAll ? waiting.length : await countWaiting(tx, tenantId, sessionId);
    const inFlight =
      session.active_run_id === null ? null : await readOpenMessage(tx, sessionId, session.active_run_id);
    return {
      sessionId,
      status: session.status,
      activeRunId: session.active_run_id,
      eventSeq: session.event_seq,
      eventsFirstSeq: session.events_first_seq,
      queueLength,
      waiting,
      inFlight,
      compactingSince: session.compacting_since,
      meter: contextStateSchema.parse(session.context_state).meter,
      usage: usageOf(session),
    };
  });
}

async function readOpenMessage(db: Db, sessionId: string, runId: string): Promise<StreamedText | null> {
  const message = await db
    .selectFrom('messages')
    .select(['id', 'run_id', 'step_no', 'epoch', 'finished_at'])
    .where('run_id', '=', runId)
    .where('role', '=', 'assistant')
    .where('superseded', '=', false)
    .orderBy('step_no', 'desc')
    .limit(1)
    .executeTakeFirst();
  if (message === undefined || message.finished_at !== null) return null;
  return {
    messageId: message.id,
    runId: message.run_id,
    stepNo: message.step_no,
    epoch: message.epoch ?? 0,
    chunks: await readChunks(db, { sessionId, messageId: message.id }, 0),
  };
}

/** The tenant and last event number of each of these sessions that exists. */
export async function readEventSeqs(
  db: Db,
  sessionIds: readonly string[],
): Promise<ReadonlyMap<string, Readonly<{ tenantId: string; eventSeq: number }>>> {
  const rows = await db
    .selectFrom('sessions')
    .select(['id', 'tenant_id as tenantId', 'event_seq as eventSeq'])
    .where('id', 'in', sessionIds)
    .execute();
  return new Map(rows.map(({ id, ...session }) => [id, session]));
}

export type WrittenText = Readonly<{
  epoch: number;
  superseded: boolean;
  /** In the order of the message. */
  pieces: readonly Readonly<{ type: 'text' | 'reasoning'; text: string }>[];
}>;

const pieceSchema = z.object({ type: z.enum(['text', 'reasoning']), text: z.string() });

/** Text and reasoning of a message with final parts. Null: there is no such message. */
export async function readWrittenText(db: Db, { sessionId, messageId }: MessageKey): Promise<WrittenText | null> {
  const message = await db
    .selectFrom('messages')
    .select(['epoch', 'superseded'])
    .where('id', '=', messageId)
    .where('session_id', '=', sessionId)
    .executeTakeFirst();
  if (message === undefined) return null;
  const parts = await db
    .selectFrom('parts')
    .select('content')
    .where('session_id', '=', sessionId)
    .where('message_id', '=', messageId)
    .where('type', 'in', ['text', 'reasoning'])
    .orderBy('idx')
    .execute();
  return {
    epoch: message.epoch ?? 0,
    superseded: message.superseded,
    pieces: parts.map(({ content }) => pieceSchema.parse(content)),
  };
}
