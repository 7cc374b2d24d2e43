import { createHash } from 'node:crypto';
import { type ConversationMessage, canonicalMessage } from '../../domain/transcript/conversation.ts';
import { createLoopShare } from '../../platform/share-loop.ts';

/** One request hashes the same messages once per point from which it may go on. */
const digests = new WeakMap<ConversationMessage, string>();

function digestOf(message: ConversationMessage): string {
  const cached = digests.get(message);
  if (cached !== undefined) return cached;
  const digest = createHash('sha256').update(canonicalMessage(message)).digest('base64');
  digests.set(message, digest);
  return digest;
}

/** Hashes each message ahead, so that `hashOf` is fast. Gives other requests rounds of the event loop. */
export async function readForHash(conversation: readonly ConversationMessage[]): Promise<void> {
  const shareLoop = createLoopShare();
  for (const message of conversation) {
    digestOf(message);
    await shareLoop(charsOf(message));
  }
}

/** The hash by which a conversation is recognized. @param owner as `ownerOf` */
export function hashOf(owner: readonly unknown[], conversation: readonly ConversationMessage[]): Uint8Array {
  const hash = createHash('sha256').update(JSON.stringify(owner));
  for (const message of conversation) hash.update(digestOf(message));
  return hash.digest();
}

function charsOf(message: ConversationMessage): number {
  if (message.role === 'assistant')
    return message.calls.reduce((sum, { args }) => sum + args.length, message.text.length);
  if (message.role === 'compaction') return message.text.length;
  const files = (message.parts ?? []).map((part) => (part.type === 'file' ? part.url.length : 0));
  return files.reduce((sum, chars) => sum + chars, message.text.length);
}
