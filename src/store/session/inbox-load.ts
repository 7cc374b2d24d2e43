import { BatonError } from '../../domain/errors.ts';
import { formatId } from '../../domain/ids.ts';
import { fitsInbox, type InboxLimits, type InboxLoad } from '../../domain/run/inbox-limits.ts';
import type { UserPart } from '../../domain/transcript/message.ts';
import { toJson } from '../db/json.ts';

type NewContent = Readonly<{ sessionId: string; content: readonly UserPart[]; inboxLimits: InboxLimits }>;

/**
 * @param waiting messages that are already queued
 * @throws BatonError `inbox_full`
 */
export function refuseFullInbox({ sessionId, content, inboxLimits: limits }: NewContent, waiting: InboxLoad): void {
  if (fitsInbox(limits, waiting, bytesOf(content))) return;
  const session = formatId('session', sessionId);
  throw new BatonError(
    'inbox_full',
    `${waiting.messages} messages of ${waiting.bytes} bytes wait in session ${session}, which takes ${limits.messages} of ` +
      `${limits.bytes} bytes: send it again when the run has taken some up, resume the session if nothing is at work, ` +
      `or remove what waits (DELETE /v1/sessions/${session}/queue)`,
  );
}

/** Bytes of a content without its files, which are stored as blobs. */
function bytesOf(content: readonly UserPart[]): number {
  const stored = content.map((part) =>
    part.type === 'file' && /^data:/i.test(part.url) ? { ...part, url: '' } : part,
  );
  return Buffer.byteLength(toJson(stored));
}
