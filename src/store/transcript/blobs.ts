import { createHash } from 'node:crypto';
import { sql } from 'kysely';
import { BatonError } from '../../domain/errors.ts';
import { formatId } from '../../domain/ids.ts';
import { keepHeadAndTail } from '../../domain/truncate.ts';
import { MAX_KEPT_OUTPUT_CHARS } from '../../domain/tunables.ts';
import { type Db, inTransaction, type Tx } from '../db/database.ts';

/** Bytes to store. A tenant has each content once, however many sessions refer to it. */
export type NewBlob = Readonly<{ id: string; sha256: Buffer; mediaType: string; bytes: Buffer }>;

/** A text as a blob, with U+FFFD for lone surrogates, which UTF-8 lacks. A text over the limit keeps head and tail. */
export function textBlob(id: string, text: string): NewBlob {
  const kept = keepHeadAndTail(text, MAX_KEPT_OUTPUT_CHARS, ': too long to be kept').text;
  return bytesBlob(id, 'text/plain; charset=utf-8', Buffer.from(kept, 'utf8'));
}

export function bytesBlob(id: string, mediaType: string, bytes: Buffer): NewBlob {
  return { id, sha256: createHash('sha256').update(bytes).digest(), mediaType, bytes };
}

export type BlobInfo = Readonly<{ id: string; mediaType: string; sizeBytes: number; createdAt: Date }>;

const INFO = sql`id, media_type as "mediaType", size_bytes as "sizeBytes", created_at as "createdAt"`;

/**
 * Stores a blob, or finds the tenant's blob with the same bytes. No session refers to it yet; a blob without references
 * is deleted some time after it was last stored.
 * @param isNamed true: the caller names the media type, which replaces the stored one
 */
export async function putBlob(db: Db | Tx, tenantId: string, blob: NewBlob, isNamed = false): Promise<BlobInfo> {
  const { id, sha256, mediaType, bytes } = blob;
  const asNamed = isNamed ? sql`${mediaType}` : sql`blobs.media_type`;
  // Known bytes need not be sent again. The update locks the row, so retention cannot delete the blob meanwhile.
  const { rows: known } = await sql<BlobInfo>`
    update blobs set created_at = clock_timestamp(), media_type = ${asNamed} where tenant_id = ${tenantId} and sha256 = ${sha256}
      returning ${INFO}`.execute(db);
  const { rows } =
    known.length > 0
      ? { rows: known }
      : await sql<BlobInfo>`
    insert into blobs (id, tenant_id, sha256, media_type, size_bytes, bytes)
      values (${id}, ${tenantId}, ${sha256}, ${mediaType}, ${bytes.length}, ${bytes})
      on conflict (tenant_id, sha256) do update set created_at = clock_timestamp(), media_type = ${asNamed}
      returning ${INFO}`.execute(db);
  const [row] = rows;
  if (row === undefined) throw new Error('the blob was not returned');
  return row;
}

export type BlobHash = Readonly<{ id: string; sha256: Buffer; mediaType: string; bytes?: undefined }>;

/** The id, hash and type of a tenant's blob, enough to attach it. Null: the tenant has no such blob. */
export async function findBlobHash(db: Db | Tx, tenantId: string, id: string): Promise<BlobHash | null> {
  const row = await db
    .selectFrom('blobs')
    .select(['id', 'sha256', 'media_type as mediaType'])
    .where('id', '=', id)
    .where('tenant_id', '=', tenantId)
    .executeTakeFirst();
  return row ?? null;
}

/**
 * Stores blobs and makes the session refer to them, in the order of their hashes: every writer locks blobs in this
 * order. Without a `tenantId`, the tenant is that of the session.
 * @returns one entry for each blob, in the given order
 * @throws BatonError `not_found` if a known blob was deleted meanwhile; `fenced` if the session is gone
 */
export async function attachBlobs(
  db: Db | Tx,
  { sessionId, tenantId: asked }: Readonly<{ sessionId: string; tenantId?: string }>,
  blobs: readonly (NewBlob | BlobHash)[],
): Promise<BlobInfo[]> {
  if (blobs.length === 0) return [];
  return inTransaction(db, async (tx) => {
    const session = await tx.selectFrom('sessions').select('tenant_id').where('id', '=', sessionId).executeTakeFirst();
    if (session === undefined || (asked !== undefined && session.tenant_id !== asked))
      throw new BatonError('fenced', 'the session is gone');
    const kept = new Map<NewBlob | BlobHash, BlobInfo>();
    for (const blob of blobs.toSorted((a, b) => a.sha256.compare(b.sha256))) {
      const { tenant_id: tenantId } = session;
      const info = blob.bytes === undefined ? await lockBlob(tx, tenantId, blob.id) : await putBlob(tx, tenantId, blob);
      await referTo(tx, session.tenant_id, sessionId, info.id);
      kept.set(blob, info);
    }
    return blobs.flatMap((blob) => kept.get(blob) ?? []);
  });
}

/** Keeps retention from deleting the blob until the transaction ends. */
async function lockBlob(tx: Tx, tenantId: string, id: string): Promise<BlobInfo> {
  const row = await tx
    .selectFrom('blobs')
    .select(['id', 'media_type as mediaType', 'size_bytes as sizeBytes', 'created_at as createdAt'])
    .where('id', '=', id)
    .where('tenant_id', '=', tenantId)
    .forKeyShare()
    .executeTakeFirst();
  if (row === undefined) throw new BatonError('not_found', `blob ${formatId('blob', id)} does not exist`);
  return row;
}

async function referTo(tx: Tx, tenantId: string, sessionId: string, blobId: string): Promise<void> {
  await tx
    .insertInto('blob_refs')
    .values({ blob_id: blobId, session_id: sessionId, tenant_id: tenantId })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
}

/** Type, size and hash of a blob, without its bytes. @throws BatonError `not_found` */
export async function readBlobInfo(
  db: Db,
  tenantId: string,
  id: string,
): Promise<BlobInfo & Readonly<{ sha256: Buffer }>> {
  const row = await db
    .selectFrom('blobs')
    .select(['id', 'media_type as mediaType', 'size_bytes as sizeBytes', 'created_at as createdAt', 'sha256'])
    .where('id', '=', id)
    .where('tenant_id', '=', tenantId)
    .executeTakeFirst();
  if (row === undefined) throw noBlob(id);
  return row;
}

/**
 * Bytes of a blob.
 * @param part `start` and `end` count from 0, both included; without it all bytes
 * @throws BatonError `not_found`
 */
export async function readBlobBytes(
  db: Db,
  tenantId: string,
  id: string,
  part?: Readonly<{ start: number; end: number }>,
): Promise<Buffer> {
  const bytes =
    part === undefined
      ? sql<Buffer | null>`bytes`
      : sql<Buffer | null>`substring(bytes from ${part.start + 1}::int for ${part.end - part.start + 1}::int)`;
  const row = await db
    .selectFrom('blobs')
    .select(bytes.as('bytes'))
    .where('id', '=', id)
    .where('tenant_id', '=', tenantId)
    .executeTakeFirst();
  if (row === undefined || row.bytes === null) throw noBlob(id);
  return row.bytes;
}

const noBlob = (id: string): BatonError => new BatonError('not_found', `blob ${formatId('blob', id)} does not exist`);

/** The text of a blob. Null: the session does not refer to such a blob. */
export async function readTextBlob(db: Db, sessionId: string, blobId: string): Promise<string | null> {
  return (await readSessionBlob(db, sessionId, blobId))?.toString('utf8') ?? null;
}

/** The bytes of a blob. Null: the session does not refer to such a blob. */
export async function readSessionBlob(db: Db, sessionId: string, blobId: string): Promise<Buffer | null> {
  const row = await db
    .selectFrom('blobs')
    .innerJoin('blob_refs', 'blob_refs.blob_id', 'blobs.id')
    .select('blobs.bytes')
    .where('blobs.id', '=', blobId)
    .where('blob_refs.session_id', '=', sessionId)
    .executeTakeFirst();
  return row?.bytes ?? null;
}
