import { parseId } from '../src/domain/ids.ts';
import type { ToolOutput } from '../src/domain/transcript/message.ts';
import type { Db } from '../src/store/db/database.ts';
import { readToolOutput } from '../src/store/transcript/earlier-content.ts';
import type { StoredMessage } from './api-client.ts';

/** The transcript with whole tool outputs, read by their references if the message has only head and tail. */
export async function withWholeOutputs(
  db: Db,
  sessionId: string,
  transcript: readonly StoredMessage[],
): Promise<StoredMessage[]> {
  const session = parseId('session', sessionId) ?? sessionId;
  const wholePart = async (message: StoredMessage, index: number): Promise<StoredMessage['parts'][number][]> => {
    const part = message.parts[index];
    if (part === undefined) return [];
    if (part.type !== 'tool' || part.output === undefined || part.outputBlobId === undefined) return [part];
    const stored = await readToolOutput(db, session, { messageSeq: message.seq, partIndex: index });
    return [stored.kind === 'found' ? { ...part, output: withValue(part.output, stored.text) } : part];
  };
  const messages: StoredMessage[] = [];
  for (const message of transcript) {
    const parts = await Promise.all(message.parts.map((_, index) => wholePart(message, index)));
    messages.push({ ...message, parts: parts.flat() });
  }
  return messages;
}

function withValue(output: ToolOutput, value: string): ToolOutput {
  return output.type === 'error-text' || output.type === 'text' ? { type: output.type, value } : output;
}
