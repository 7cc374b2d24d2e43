import { formatId } from '../ids.ts';
import type { Part } from '../transcript/message.ts';
import type { NewEvent } from './events.ts';

/** Files and sources of an answer are not streamed as text is: readers get them when the answer is stored. */
export function partEvents(messageId: string, parts: readonly Part[]): NewEvent[] {
  const ofMessage = { messageId: formatId('message', messageId) };
  return parts.flatMap((part): NewEvent[] => {
    switch (part.type) {
      case 'file': {
        const { type: _type, providerMetadata: _theirs, ...file } = part;
        return [{ type: 'llm:file', data: { ...ofMessage, ...file } }];
      }
      case 'source': {
        const { type: _type, providerMetadata: _theirs, ...source } = part;
        return [{ type: 'llm:source', data: { ...ofMessage, ...source } }];
      }
      default:
        return [];
    }
  });
}
