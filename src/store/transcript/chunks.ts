import type { Part } from '../../domain/transcript/message.ts';
import type { Db } from '../db/database.ts';
import type { MessageKey } from './message-key.ts';

export type StreamedText = Readonly<{
  messageId: string;
  runId: string | null;
  stepNo: number | null;
  epoch: number;
  chunks: readonly Readonly<{ charOffset: number; type: 'text' | 'reasoning'; text: string }>[];
}>;

/**
 * The stored chunks of a streaming message, from the one that contains `fromOffset` on. Offsets count UTF-16 units as
 * in JavaScript; Postgres counts code points, so the query compares no lengths.
 */
export async function readChunks(
  db: Db,
  { sessionId, messageId }: MessageKey,
  fromOffset: number,
): Promise<StreamedText['chunks']> {
  const rows = await db
    .selectFrom('part_chunks')
    .select(['char_offset', 'type', 'chunk'])
    .where('session_id', '=', sessionId)
    .where('message_id', '=', messageId)
    .where('char_offset', '>=', (eb) =>
      eb
        .selectFrom('part_chunks')
        .select((inner) => inner.fn.coalesce(inner.fn.max('char_offset'), inner.val(0)).as('first'))
        .where('session_id', '=', sessionId)
        .where('message_id', '=', messageId)
        .where('char_offset', '<=', fromOffset),
    )
    .orderBy('char_offset')
    .execute();
  return rows.map((row) => ({ charOffset: row.char_offset, type: row.type, text: row.chunk }));
}

/** The text so far of a message whose response broke off, as parts. */
export async function readStreamedParts(db: Db, { sessionId, messageId }: MessageKey): Promise<Part[]> {
  const rows = await db
    .selectFrom('part_chunks')
    .select(['part_idx', 'type', 'chunk'])
    .where('session_id', '=', sessionId)
    .where('message_id', '=', messageId)
    .orderBy('char_offset')
    .execute();
  return Map.groupBy(rows, (row) => row.part_idx)
    .values()
    .map((pieces): Part => ({ type: pieces[0]?.type ?? 'text', text: pieces.map((piece) => piece.chunk).join('') }))
    .toArray();
}
