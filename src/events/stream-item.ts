import { formatId } from '../domain/ids.ts';
import type { LiveEvent, SessionEvent } from '../domain/run/events.ts';
import type { SessionSnapshot, SnapshotChunk } from '../domain/run/session-snapshot.ts';
import type { LiveSnapshot } from '../store/lists/live-snapshot.ts';
import type { WaitingNotice } from '../store/session/waiting-messages.ts';
import type { StreamedText } from '../store/transcript/chunks.ts';

/** An item for a reader of a session. All ids in it are public. */
export type StreamItem =
  | Readonly<{ kind: 'snapshot'; data: SessionSnapshot }>
  /** `epoch`: of the history that the event belongs to; null: unknown. */
  | Readonly<{ kind: 'event'; event: SessionEvent; epoch: string | null }>
  | Readonly<{ kind: 'live'; event: LiveEvent }>
  | Readonly<{ kind: 'heartbeat'; seq: number }>;

export function toPublicEvent(event: SessionEvent): SessionEvent {
  return event.runId === null ? event : { ...event, runId: formatId('run', event.runId) };
}

/** @param reset true: the reader's cursor does not fit the log */
export function toSessionSnapshot(state: LiveSnapshot, reset: boolean): SessionSnapshot {
  return {
    sessionId: formatId('session', state.sessionId),
    status: state.status,
    activeRunId: state.activeRunId === null ? null : formatId('run', state.activeRunId),
    seq: state.eventSeq,
    queueLength: state.queueLength,
    queue: state.waiting.map((message) => toNotice(state.sessionId, message)),
    inFlight: state.inFlight === null ? null : toInFlight(state.inFlight),
    reset,
    usage: state.usage,
    compactingSince: state.compactingSince?.toISOString() ?? null,
    context: state.meter === null ? null : { used: state.meter.usedTokens, usable: state.meter.usableTokens },
  };
}

function toNotice(sessionId: string, { content, ...message }: WaitingNotice): SessionSnapshot['queue'][number] {
  const id = formatId('message', message.id);
  const href = `/v1/sessions/${formatId('session', sessionId)}/queue/${id}`;
  return {
    id,
    position: message.position,
    delivery: message.delivery,
    ...(content === null ? { contentRef: { sizeBytes: message.contentBytes, href } } : { content }),
    enqueuedAt: message.enqueuedAt.toISOString(),
  };
}

function toInFlight(text: StreamedText): SessionSnapshot['inFlight'] {
  if (text.runId === null || text.stepNo === null) return null;
  return {
    messageId: formatId('message', text.messageId),
    runId: formatId('run', text.runId),
    step: text.stepNo,
    epoch: text.epoch,
    chunks: joinChunks(text.chunks, 0),
  };
}

/** Stored chunks from `fromOffset` up to the first gap, which could not be filled later. Joined by type. */
export function joinChunks(chunks: StreamedText['chunks'], fromOffset: number): SnapshotChunk[] {
  const joined: SnapshotChunk[] = [];
  let end = fromOffset;
  for (const { charOffset, type, text } of chunks) {
    if (charOffset > end) break;
    const content = text.slice(end - charOffset);
    if (content === '') continue;
    const last = joined.at(-1);
    if (last?.chunkType === type) last.content += content;
    else joined.push({ chunkType: type, content, offset: end });
    end += content.length;
  }
  return joined;
}
