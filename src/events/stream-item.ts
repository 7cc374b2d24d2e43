import { z } from 'zod';
import { formatId } from '../domain/ids.ts';
import { contentRefSchema, type LiveEvent, type SessionEvent } from '../domain/run/events.ts';
import { DELIVERIES, SESSION_STATUSES } from '../domain/run/session.ts';
import { usageSchema } from '../domain/usage.ts';
import type { StreamedText } from '../store/chunks.ts';
import type { LiveSnapshot } from '../store/live-snapshot.ts';
import type { WaitingNotice } from '../store/waiting.ts';

const chunkSchema = z.strictObject({
  chunkType: z.enum(['text', 'reasoning']),
  content: z.string(),
  /** Where it begins in the message, in UTF-16 units, text and reasoning counted together. */
  offset: z.number().int().nonnegative(),
});

/** The first thing a reader gets: the session as of event `seq`. What follows is after it, or a replay up to it. */
export const sessionSnapshotSchema = z.strictObject({
  sessionId: z.string(),
  status: z.enum(SESSION_STATUSES),
  activeRunId: z.string().nullable(),
  seq: z.number().int().nonnegative(),
  /** How many messages wait, and the first of them: with `contentRef` in place of a large content. */
  queueLength: z.number().int().nonnegative(),
  queue: z.array(
    z.strictObject({
      id: z.string(),
      position: z.number().int().positive(),
      delivery: z.enum(DELIVERIES),
      content: z.array(z.unknown()).optional(),
      contentRef: contentRefSchema.optional(),
      enqueuedAt: z.iso.datetime(),
    }),
  ),
  /** The message that is being written, with its text so far; deltas go on where it ends. */
  inFlight: z
    .strictObject({
      messageId: z.string(),
      runId: z.string(),
      step: z.number().int().positive(),
      epoch: z.number().int().nonnegative(),
      chunks: z.array(chunkSchema),
    })
    .nullable(),
  /** True when events after the reader's cursor are gone: what it knows is replaced by this. */
  reset: z.boolean(),
  usage: usageSchema,
  /** Set while older messages are being summarized; messages are accepted as always. */
  compactingSince: z.iso.datetime().nullable(),
  /** Tokens of the next request, and what it may hold; null before the first step. */
  context: z.strictObject({ used: z.number().int(), usable: z.number().int() }).nullable(),
});

export type SessionSnapshot = z.infer<typeof sessionSnapshotSchema>;
export type SnapshotChunk = z.infer<typeof chunkSchema>;

/** What a reader of a session gets, in order. Every id in it is in its public form. */
export type StreamItem =
  | Readonly<{ kind: 'snapshot'; data: SessionSnapshot }>
  | Readonly<{ kind: 'event'; event: SessionEvent }>
  | Readonly<{ kind: 'live'; event: LiveEvent }>
  | Readonly<{ kind: 'heartbeat'; seq: number }>;

/** An event as it is stored, with its run's id as clients know it. */
export function toPublicEvent(event: SessionEvent): SessionEvent {
  return event.runId === null ? event : { ...event, runId: formatId('run', event.runId) };
}

/** A session as its readers are told it. `reset`: what the reader has seen is not how its log begins. */
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

/**
 * Persisted chunks from `fromOffset` on, those of one type joined. What comes after a hole is left out: the hole would
 * otherwise never be filled.
 */
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
