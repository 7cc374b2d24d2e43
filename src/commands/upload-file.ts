import { refuseOverStorage } from '../store/session/quota.ts';
import { type BlobInfo, bytesBlob, putBlob } from '../store/transcript/blobs.ts';
import type { CommandPorts } from './ports.ts';

/**
 * Stores a file that messages can refer to. The same bytes of the same type are one file. No audit entry: nothing refers
 * to it yet.
 *
 * Locks nothing. Promises that the tenant's storage quota had room.
 * @param file.isNamed whether the sender named the media type
 * @throws BatonError `storage_exceeded`
 */
export async function uploadFile(
  { db, newId, quota }: Pick<CommandPorts, 'db' | 'newId' | 'quota'>,
  tenantId: string,
  { mediaType, bytes, isNamed }: Readonly<{ mediaType: string; bytes: Buffer; isNamed: boolean }>,
): Promise<BlobInfo> {
  await refuseOverStorage(db, tenantId, quota, bytes.length);
  return putBlob(db, tenantId, bytesBlob(newId(), mediaType, bytes), isNamed);
}
