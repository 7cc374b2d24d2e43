import { formatId } from '../domain/ids.ts';
import type { ChunkEvent } from '../domain/run/events.ts';
import type { SessionSnapshot } from '../domain/run/session-snapshot.ts';
import { shareReads } from '../platform/share-reads.ts';
import type { Db } from '../store/db/database.ts';
import { type LiveSnapshot, readLiveSnapshot, readWrittenText } from '../store/lists/live-snapshot.ts';
import { readChunks } from '../store/transcript/chunks.ts';
import type { MessageKey } from '../store/transcript/message-key.ts';
import { joinChunks, toSessionSnapshot } from './stream-item.ts';

type JoinedSession = Readonly<{
  state: LiveSnapshot;
  /** The same object for all readers that share the read, so that it is encoded once. */
  snapshotFor: (reset: boolean) => SessionSnapshot;
}>;

type SessionRef = Readonly<{ tenantId: string; sessionId: string }>;

/** The session for joining readers. @throws BatonError `not_found` */
export const readJoinedSession = shareReads(
  async (db: Db, { tenantId, sessionId }: SessionRef): Promise<JoinedSession> => {
    const state = await readLiveSnapshot(db, tenantId, sessionId);
    const snapshots = new Map<boolean, SessionSnapshot>();
    const snapshotFor = (reset: boolean): SessionSnapshot => {
      const snapshot = snapshots.get(reset) ?? toSessionSnapshot(state, reset);
      snapshots.set(reset, snapshot);
      return snapshot;
    };
    return { state, snapshotFor };
  },
  ({ tenantId, sessionId }) => `${tenantId} ${sessionId}`,
);

type TextPlace = MessageKey & Readonly<{ fromOffset: number; epoch: number }>;

/** Stored text of an open message from an offset on, without gaps. */
export const readOpenText = shareReads(
  async (db: Db, { fromOffset, epoch, ...key }: TextPlace): Promise<readonly ChunkEvent[]> => {
    const chunks = joinChunks(await readChunks(db, key, fromOffset), fromOffset);
    return chunks.map((chunk) => toChunkEvent({ messageId: formatId('message', key.messageId), epoch, ...chunk }));
  },
  ({ sessionId, messageId, fromOffset, epoch }) => `${sessionId} ${messageId} ${fromOffset} ${epoch}`,
);

type WholeText = Readonly<{ epoch: number; superseded: boolean; chunks: readonly ChunkEvent[] }>;

/** The whole text of a message with final parts. Null: there is no such message. */
export const readWholeText = shareReads(
  async (db: Db, key: MessageKey): Promise<WholeText | null> => {
    const written = await readWrittenText(db, key);
    if (written === null) return null;
    const { epoch, superseded, pieces } = written;
    return { epoch, superseded, chunks: chunksOf(formatId('message', key.messageId), epoch, pieces) };
  },
  ({ sessionId, messageId }) => `${sessionId} ${messageId}`,
);

type Piece = Readonly<{ type: 'text' | 'reasoning'; text: string }>;

/** A whole text as previews, one for each piece. */
export function chunksOf(messageId: string, epoch: number, pieces: readonly Piece[]): ChunkEvent[] {
  let end = 0;
  return pieces.map(({ type, text }) => {
    const offset = end;
    end += text.length;
    return toChunkEvent({ messageId, epoch, offset, chunkType: type, content: text });
  });
}

const toChunkEvent = (data: ChunkEvent['data']): ChunkEvent => ({ type: 'llm:chunk', data });
