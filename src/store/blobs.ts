import { createHash } from 'node:crypto';
import { keepHeadAndTail } from '../domain/truncate.ts';
import type { Db } from './database.ts';

/** Bytes that are kept once for each tenant, whoever refers to them. */
export type NewBlob = Readonly<{ id: string; sha256: Buffer; mediaType: string; bytes: Buffer }>;

/** The most of one text that is kept; UTF-8 takes up to three bytes for each. */
const MAX_BLOB_TEXT_CHARS = 5_000_000;

/**
 * A text as a blob. Lone surrogates become U+FFFD, as UTF-8 has none. Of a text over the limit head and tail are kept,
 * and between them how much was cut out.
 */
export function textBlob(id: string, text: string): NewBlob {
  const kept = keepHeadAndTail(text, MAX_BLOB_TEXT_CHARS, ': too long to be kept').text;
  const bytes = Buffer.from(kept, 'utf8');
  const sha256 = createHash('sha256').update(bytes).digest();
  return { id, sha256, mediaType: 'text/plain; charset=utf-8', bytes };
}

/** The text of a blob that the session refers to; null when it refers to no such blob. */
export async function readTextBlob(db: Db, sessionId: string, blobId: string): Promise<string | null> {
  const row = await db
    .selectFrom('blobs')
    .innerJoin('blob_refs', 'blob_refs.blob_id', 'blobs.id')
    .select('blobs.bytes')
    .where('blobs.id', '=', blobId)
    .where('blob_refs.session_id', '=', sessionId)
    .executeTakeFirst();
  return row?.bytes?.toString('utf8') ?? null;
}
